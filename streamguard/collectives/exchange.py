"""How ranks tell each other what they called: through the job's Store, never a communicator.

Every rank writes one key a tick; one rank, the reader, reads them. Traffic grows with the number
of ranks. A description of a call travels once, afterwards only its number does.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from streamguard.collectives.buffer_names import BufferNames
from streamguard.collectives.phases import phase_of, place
from streamguard.collectives.record import MESSAGES, OPS, Frame, Group, dtype_name, is_message
from streamguard.collectives.views import Call, Stream, View, buffer_of, describe

# What two calls must share to be described by the same entry.
_SIGNATURE = (
    *("group", "op", "dtype", "reduce_op", "peer", "tag", "input_count", "output_count"),
    *("fingerprint", "balance", "site", "flags"),
)


class Store(Protocol):
    """The part of torch's Store that is used."""

    # ruff: noqa: D102 - torch documents them

    def set(self, key: str, value: bytes) -> None: ...
    def get(self, key: str) -> bytes: ...
    def check(self, keys: list[str]) -> bool: ...
    def add(self, key: str, amount: int) -> int: ...
    def multi_get(self, keys: list[str]) -> list[bytes]: ...
    def delete_key(self, key: str) -> bool: ...
    def compare_set(self, key: str, expected: str, desired: str) -> bytes: ...


def store_obstacle() -> str:
    """Why the ranks of this job cannot be compared; "" if they can."""
    import torch.distributed as distributed
    from torch.distributed import distributed_c10d

    store = distributed_c10d._get_default_store()
    while isinstance(store, distributed.PrefixStore):
        store = store.underlying_store
    if isinstance(store, distributed.TCPStore):
        return ""
    # Others are of one process, or lack the calls that are needed.
    return f"the ranks meet in a {type(store).__name__}, and only a TCPStore can be used"


class Writer:
    """Turns new records into messages.

    Args:
        buffers: What the hooks call the memory that calls work on.
    """

    def __init__(self, buffers: BufferNames) -> None:
        self._buffers = buffers
        self._numbers: dict[bytes, int] = {}
        self._told_groups = 0
        self.told_made = 0
        self.ends: dict[int, int] = {}  # calls made, by group number
        self._has_gap = False
        self._begun: set[int] = set()  # groups whose calls are without a gap since the last one

    def message(
        self,
        records: np.ndarray,
        groups: dict[int, Group],
        sites: dict[int, tuple[Frame, ...]],
        made: Sequence[tuple[int, ...]],
        *,
        after_gap: bool = False,
    ) -> bytes:
        """Everything new since the last message; `made` are the members of all `new_group`s.

        Args:
            after_gap: The ring no longer holds the records in front of these.
        """
        if after_gap:
            self._has_gap = True
            self._begun.clear()
        new: list[list[object]] = []
        calls: list[int] = []
        keys = records[list(_SIGNATURE)]
        for record, key in zip(records, keys, strict=True):
            buffer = buffer_of(record, self._buffers)
            raw = key.tobytes() + buffer.encode()
            number = self._numbers.get(raw)
            if number is None:
                number = self._numbers[raw] = len(self._numbers)
                frames = sites.get(int(record["site"]), ())
                op = OPS[int(record["op"])]
                message = ""
                if is_message(int(record["op"])):
                    name = dtype_name(int(record["dtype"]))
                    message = f"{name} [{int(record['input_count'])}]"
                new.append(
                    [
                        int(record["group"]), op, describe(record, buffer), place(frames),
                        phase_of(frames, op, int(record["flags"])), int(record["fingerprint"]),
                        int(record["balance"]), int(record["peer"]), int(record["tag"]), message,
                    ]
                )  # fmt: skip
            calls += (number, int(record["sequence"]))
            if not is_message(int(record["op"])):
                self.ends[int(record["group"])] = int(record["sequence"]) + 1
        told = sorted(groups)[self._told_groups :]
        self._told_groups += len(told)
        first_made, self.told_made = self.told_made, len(made)
        content = {
            "made": [[n, made[n]] for n in range(first_made, len(made))],
            "groups": [[n, groups[n].key, groups[n].name, groups[n].ranks] for n in told],
            "from": self._beginnings(records),
            "new": new,
            "calls": calls,
        }
        return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 1)

    def _beginnings(self, records: np.ndarray) -> list[tuple[int, int]]:
        """Where the calls of each group go on after a gap; without one they begin with 0."""
        if not self._has_gap or not len(records):
            return []
        calls = records[~np.isin(records["op"], MESSAGES)]
        new = sorted(set(calls["group"].tolist()) - self._begun)
        self._begun.update(new)
        return [(n, int(calls["sequence"][calls["group"] == n].min())) for n in new]


@dataclass(slots=True)
class _Column:
    base: int = 0
    fingerprints: list[int] = field(default_factory=list)
    balances: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    early: dict[int, int] = field(default_factory=dict)  # came before one with a lower sequence


class Reader:
    """Puts the messages of one rank together again."""

    def __init__(self, rank: int) -> None:
        self.view = View(rank, call=self._call)
        self._calls: list[tuple[str, Call]] = []
        self._keys: dict[int, str] = {}
        self._columns: dict[str, _Column] = {}

    def take(self, message: bytes) -> None:
        """Add one message; they come in order."""
        content = json.loads(zlib.decompress(message))
        for number, ranks in content["made"]:
            # Ranks make groups in one order, so the number tells which belong together.
            key = f"new_group/{number}"
            self.view.members[key] = tuple(ranks)
            self.view.names[key] = f"new_group() number {number + 1}"
        for number, key, name, ranks in content["groups"]:
            self._keys[number] = key
            self.view.members[key] = tuple(ranks)
            self.view.names[key] = name
        for number, sequence in content["from"]:
            self._columns[self._keys[number]] = _Column(base=sequence)
            self.view.is_partial = True
        for group, *fields in content["new"]:
            self._calls.append((self._keys[group], Call(*fields)))
        calls = content["calls"]
        for number, sequence in zip(calls[::2], calls[1::2], strict=True):
            self._add(number, sequence)

    def compress(self, keep_from: dict[str, int]) -> None:
        """Forget what all members were found to agree on."""
        for key, position in keep_from.items():
            column = self._columns.get(key)
            if column is None:
                continue
            # One agreed call stays: a report names the last one.
            drop = position - 1 - column.base
            if drop > 0:
                del column.fingerprints[:drop], column.balances[:drop], column.numbers[:drop]
                column.base += drop

    def refresh(self) -> None:
        """Bring the view's streams up to date."""
        for key, column in self._columns.items():
            self.view.streams[key] = Stream(
                column.base,
                np.array(column.fingerprints, np.uint64),
                np.array(column.balances, np.uint64),
            )

    def _add(self, number: int, sequence: int) -> None:
        key, call = self._calls[number]
        if call.message:
            self.view.messages.append((key, call))
            return
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column(base=0)
        column.early[sequence] = number
        while True:
            end = column.base + len(column.numbers)
            found = column.early.pop(end, None)
            if found is None:
                break
            described = self._calls[found][1]
            column.numbers.append(found)
            column.fingerprints.append(described.fingerprint)
            column.balances.append(described.balance)
            self.view.newest = key, end

    def _call(self, key: str, position: int) -> Call | None:
        column = self._columns.get(key)
        if column is None or not 0 <= position - column.base < len(column.numbers):
            return None
        return self._calls[column.numbers[position - column.base]][1]


def drop_matched_messages(views: Iterable[View]) -> None:
    """Forget sends and receives that found each other and agreed, and what cannot be matched."""
    by_rank = {view.rank: view for view in views}
    if any(view.is_partial for view in by_rank.values()):
        for view in by_rank.values():
            view.messages = [m for m in view.messages if not _lacks_a_side(view, m, by_rank)]
    sends: dict[tuple[str, int, int, int], list[tuple[int, int]]] = {}
    receives: dict[tuple[str, int, int, int], list[tuple[int, int]]] = {}
    for rank, view in by_rank.items():
        for index, (key, call) in enumerate(view.messages):
            members = view.members[key]
            if not 0 <= call.peer < len(members):
                continue
            other = members[call.peer]
            if call.op == "send":
                sends.setdefault((key, rank, other, call.tag), []).append((rank, index))
            else:
                receives.setdefault((key, other, rank, call.tag), []).append((rank, index))
    done: dict[int, set[int]] = {}
    for channel in sends.keys() & receives.keys():
        for (a, i), (b, j) in zip(sends[channel], receives[channel], strict=False):
            if by_rank[a].messages[i][1].message == by_rank[b].messages[j][1].message:
                done.setdefault(a, set()).add(i)
                done.setdefault(b, set()).add(j)
    for rank, indices in done.items():
        view = by_rank[rank]
        view.messages = [m for i, m in enumerate(view.messages) if i not in indices]


def _lacks_a_side(view: View, message: tuple[str, Call], views: dict[int, View]) -> bool:
    """Whether the older messages of an end are unknown: then nobody knows which belong together."""
    key, call = message
    members = view.members[key]
    other = views.get(members[call.peer]) if 0 <= call.peer < len(members) else None
    return view.is_partial or (other is not None and other.is_partial)
