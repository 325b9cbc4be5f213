"""Hands the batches of a trace to the replayer in the layout that it takes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from streamguard import _core

Frame = tuple[str, int, str]

_NONE = 0xFFFFFFFF
_ACCESS_COLUMNS = ("begin", "width", "pitch", "rows", "allocation")


class _Numbers:
    """Numbers of ours for the texts of a file's dictionary, which only needs to grow to be cheap.

    Args:
        number_of: Returns our number of a text.
        none: Stands for null.
    """

    def __init__(self, number_of: Callable[[str], int], none: int) -> None:
        self._number_of = number_of
        self._none = none
        self._known: pa.Array = pa.array([], pa.utf8())
        self._numbers: list[int] = []

    def of(self, column: pa.DictionaryArray) -> bytes:
        values = column.dictionary
        count = len(self._known)
        if len(values) < count or not values.slice(0, count).equals(self._known):
            count, self._numbers = 0, []
        for text in values.slice(count):
            if text.as_py() is None:
                raise ValueError("a dictionary holds a null")
            self._numbers.append(self._number_of(text.as_py()))
        self._known = values
        numbers = pa.array(self._numbers, pa.uint32()).take(column.indices)
        return _bytes(numbers, self._none)


class Feeder:
    """Knows what the file's dictionaries stand for.

    Args:
        replayer: Is told the texts.
    """

    def __init__(self, replayer: _core.Replayer) -> None:
        self._replayer = replayer
        self._texts: dict[str, int] = {}
        self._sites: dict[str, int] = {}
        self._frames: list[list[Frame]] = [[]]
        self._verbs = _Numbers(lambda text: _index(_core.TRACE_VERBS, text), 255)
        self._kinds = _Numbers(lambda text: _index(_core.TRACE_KINDS, text), 0)
        self._names = _Numbers(self._text_number, _NONE)
        self._groups = _Numbers(self._text_number, _NONE)
        self._own_sites = _Numbers(self._site_number, 0)
        self._forward_sites = _Numbers(self._site_number, 0)

    def frames(self, site: int) -> list[Frame]:
        """The frames of a source site, innermost first."""
        return self._frames[site]

    def text(self, rows: pa.RecordBatch, row: int) -> str:
        """The name in one row."""
        return str(rows["name"][row].as_py())

    def batch(self, rows: pa.RecordBatch) -> _core.ReplayBatch:
        """Lay out one batch.

        Raises:
            ValueError: a dictionary holds what no trace has.
        """
        accesses = rows["accesses"]
        offsets = pc.if_else(pc.is_valid(accesses), pc.list_value_length(accesses), 0)
        values = accesses.flatten()
        columns: dict[str, bytes] = {
            "verb": _narrow(self._verbs.of(rows["verb"])),
            "kind": _narrow(self._kinds.of(rows["kind"])),
            "device": _bytes(rows["device"], 0),
            "thread": _bytes(rows["thread"], _NONE),
            "stream": _bytes(rows["stream"], _NONE),
            "name": self._names.of(rows["name"]),
            "group": self._groups.of(rows["group"]),
            "site": self._own_sites.of(rows["site"]),
            "forward_site": self._forward_sites.of(rows["forward_site"]),
            "access_offsets": _offsets(offsets),
            "access_is_write": _bytes(values.field("is_write").cast(pa.uint8()), 0),
        }
        columns |= {name: _bytes(rows[name], 0) for name in ("op", "id", "begin", "end")}
        for name in _ACCESS_COLUMNS:
            columns[f"access_{name}"] = _bytes(values.field(name), 0)
        return _core.ReplayBatch(rows.num_rows, columns)

    def _text_number(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = len(self._texts)
            self._replayer.add_text(text)
        return number

    def _site_number(self, text: str) -> int:
        number = self._sites.get(text)
        if number is None:
            self._frames.append(_parse_frames(text))
            number = self._sites[text] = len(self._frames) - 1
            self._replayer.set_site_count(number)
        return number


def _parse_frames(text: str) -> list[Frame]:
    try:
        frames = json.loads(text)
        parsed = [(file, line, function) for file, line, function in frames]
    except (ValueError, TypeError, RecursionError):
        parsed = [(None, None, None)]
    for file, line, function in parsed:
        if not (isinstance(file, str) and type(line) is int and isinstance(function, str)):
            raise ValueError(f"site {text[:80]!r} is no list of [file, line, function]")
    return parsed


def _index(names: list[str], text: str) -> int:
    return names.index(text) if text in names else 255


def _bytes(array: pa.Array, none: int) -> bytes:
    """The values as plain numbers, with `none` for null."""
    filled = array.fill_null(pa.scalar(none, array.type)) if array.null_count else array
    width = filled.type.bit_width // 8
    begin = filled.offset * width
    buffer = filled.buffers()[1]
    if buffer is None or len(filled) == 0:
        return b""
    return bytes(memoryview(buffer)[begin : begin + len(filled) * width])


def _narrow(numbers: bytes) -> bytes:
    """The low byte of each 32-bit number, which is all that codes below 256 have."""
    return numbers[::4]


def _offsets(lengths: pa.Array) -> bytes:
    sums = pc.cumulative_sum(lengths.cast(pa.int32()))
    return bytes(4) + _bytes(sums, 0)
