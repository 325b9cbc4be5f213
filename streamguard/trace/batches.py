"""Turns recorded columns into record batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from streamguard import _core
from streamguard.trace.schema import ACCESS, schema

# (op, is collective, is asynchronous, group), as the hooks name a label
Label = tuple[str, bool, bool, str]
Stack = Sequence[tuple[str, int, str]]
Columns = Mapping[str, object]

_NONE = 0xFFFFFFFF  # what a 32-bit column holds where a row has no such number
_VERBS = pa.array(_core.TRACE_VERBS, pa.utf8())
_KINDS = pa.array(_core.TRACE_KINDS, pa.utf8())
_COLLECTIVE = _core.TRACE_VERBS.index("collective")
_ASYNC = _core.TRACE_KINDS.index("async")
_SYNC = _core.TRACE_KINDS.index("sync")
# Verbs whose row names a device; elsewhere the column is null.
_ON_DEVICE = [
    _core.TRACE_VERBS.index(verb) for verb in ("add_stream", "sync_device", "name_stream")
]


class _Texts:
    """A dictionary that only grows, as Arrow's delta dictionaries need it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._values: pa.Array = pa.array([], pa.utf8())

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def values(self) -> pa.Array:
        if len(self._values) < len(self._numbers):
            new = list(self._numbers)[len(self._values) :]
            self._values = pa.concat_arrays([self._values, pa.array(new, pa.utf8())])
        return self._values


class _Sites:
    """The dictionary of one column of stacks: the texts of those that occur in it."""

    def __init__(self, stacks: Sequence[str]) -> None:
        self._stacks = stacks
        self._texts = _Texts()
        self._numbers: dict[int, int | None] = {0: None}

    def column(self, stacks: pa.Array) -> pa.Array:
        encoded = stacks.dictionary_encode()
        numbers = [self._number(stack) for stack in encoded.dictionary.to_pylist()]
        return _texts(_mapped(numbers, encoded.indices), self.values())

    def values(self) -> pa.Array:
        return self._texts.values()

    def _number(self, stack: int) -> int | None:
        if stack not in self._numbers:
            self._numbers[stack] = self._texts.number(self._stacks[stack])
        return self._numbers[stack]


class BatchBuilder:
    """Makes the batches of one file, whose dictionaries grow from batch to batch.

    Not thread-safe.
    """

    def __init__(self, *, one_host_clock: bool = True) -> None:
        self.schema = schema(one_host_clock=one_host_clock)
        self._names = _Texts()
        self._groups = _Texts()
        self._stacks: list[str] = [""]  # stack 0 has no frames
        self._sites = _Sites(self._stacks)
        self._forward_sites = _Sites(self._stacks)
        self._name_of_text: list[int] = []
        self._name_of_label: list[int] = []
        self._group_of_label: list[int | None] = []
        self._label_is_async: list[bool] = []

    def add_labels(self, labels: Iterable[Label]) -> None:
        """What the label numbers of the recorded columns stand for, numbered on."""
        for op, is_collective, is_async, group in labels:
            self._name_of_label.append(self._names.number(op))
            self._group_of_label.append(self._groups.number(group) if is_collective else None)
            self._label_is_async.append(is_async)

    def add_stacks(self, stacks: Iterable[Stack]) -> None:
        """What the site numbers of the recorded columns stand for, numbered on from 1."""
        for frames in stacks:
            self._stacks.append(json.dumps([list(frame) for frame in frames]))

    @property
    def stack_count(self) -> int:
        """How many stacks were added."""
        return len(self._stacks) - 1

    def build(self, columns: Columns) -> pa.RecordBatch:
        """A batch of the rows that `columns` hold.

        Args:
            columns: What a recorder returned; csrc/trace/columns.h has the layout. Labels and
                stacks it names were added before.
        """
        for text in cast("Sequence[str]", columns["new_texts"]):
            self._name_of_text.append(self._names.number(text))
        read = _Reader(columns)
        verb, label = read.plain("verb", pa.uint8()), read.numbers("label")
        name = pc.coalesce(
            _mapped(self._name_of_label, label), _mapped(self._name_of_text, read.numbers("text"))
        )
        is_collective = pc.equal(verb, _COLLECTIVE)
        is_async = pa.array(self._label_is_async, pa.bool_()).take(label)
        kind = pc.if_else(
            is_collective,
            pc.if_else(is_async, pa.scalar(_ASYNC, pa.uint8()), pa.scalar(_SYNC, pa.uint8())),
            read.plain("kind", pa.uint8()),
        )
        on_device = pc.is_in(verb, pa.array(_ON_DEVICE, pa.uint8()))
        arrays = [
            _texts(verb.cast(pa.int8()), _VERBS),
            _texts(_unless(kind, 0).cast(pa.int8()), _KINDS),
            _texts(name, self._names.values()),
            _texts(_mapped(self._group_of_label, label), self._groups.values()),
            _unless(read.plain("op", pa.uint64()), 0),
            read.numbers("thread"),
            read.numbers("stream"),
            pc.if_else(on_device, read.plain("device", pa.int32()), None),
            read.plain("id", pa.uint64()),
            read.plain("begin", pa.uint64()),
            read.plain("end", pa.uint64()),
            self._sites.column(read.plain("site", pa.uint32())),
            self._forward_sites.column(read.plain("forward_site", pa.uint32())),
            read.accesses(),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def checksum(self, crc32: int) -> pa.RecordBatch:
        """The one-row batch that closes what was written since the last one."""
        dictionaries = {
            "verb": _VERBS,
            "kind": _KINDS,
            "name": self._names.values(),
            "group": self._groups.values(),
            "site": self._sites.values(),
            "forward_site": self._forward_sites.values(),
        }
        values = {"verb": _core.TRACE_VERBS.index("checksum"), "id": crc32}
        arrays = []
        for field in self.schema:
            value = [values.get(field.name)]
            if field.name in dictionaries:
                # The same dictionary as before, or Arrow would write a new one.
                arrays.append(
                    _texts(pa.array(value, field.type.index_type), dictionaries[field.name])
                )
            else:
                arrays.append(pa.array(value, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _Reader:
    """Recorded columns as Arrow arrays, without a copy."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._rows = cast("int", columns["rows"])

    def plain(self, name: str, kind: pa.DataType) -> pa.Array:
        return self._array(name, kind, self._rows)

    def numbers(self, name: str) -> pa.Array:
        return _unless(self.plain(name, pa.uint32()), _NONE)

    def accesses(self) -> pa.Array:
        offsets = self._array("access_offsets", pa.int32(), self._rows + 1)
        count = offsets[-1].as_py()
        children = [
            self._array("access_is_write", pa.uint8(), count).cast(pa.bool_())
            if field.name == "is_write"
            else self._array(f"access_{field.name}", field.type, count)
            for field in ACCESS
        ]
        values = pa.StructArray.from_arrays(children, fields=list(ACCESS))
        return pa.ListArray.from_arrays(offsets, values)

    def _array(self, name: str, kind: pa.DataType, size: int) -> pa.Array:
        return pa.Array.from_buffers(kind, size, [None, pa.py_buffer(self._columns[name])])


def _unless(array: pa.Array, none: int) -> pa.Array:
    """The array with null in the place of the value `none`."""
    return pc.if_else(pc.equal(array, pa.scalar(none, array.type)), None, array)


def _mapped(targets: Sequence[int | None], numbers: pa.Array) -> pa.Array:
    return pa.array(targets, pa.int32()).take(numbers)


def _texts(indices: pa.Array, values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(indices, values)
