"""What is known of every rank when ranks are compared, wherever it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from streamguard.collectives.buffer_names import BufferNames
from streamguard.collectives.phases import phase_of, place
from streamguard.collectives.record import (
    MESSAGES,
    OPS,
    REDUCE_OPS,
    RankLog,
    dtype_name,
    is_message,
)

Numbers = npt.NDArray[np.uint64]
# running: heard of lately; leaving: in destroy_process_group; ended: said so; gone: its process no
# longer exists; silent: none of these; stopped: known only from its file; absent: never heard of
Status = Literal["running", "leaving", "ended", "gone", "silent", "stopped", "absent"]


@dataclass(frozen=True, slots=True)
class Call:
    """One collective or message as a report shows it.

    Attributes:
        what: Op, dtype, reduce op, sizes and root.
        place: The line that asked for it.
        peer: Group rank of the other end of a message; -1 otherwise.
        message: What both ends of a message must agree on; "" for collectives.
    """

    op: str
    what: str
    place: str
    phase: str
    fingerprint: int
    balance: int
    peer: int = -1
    tag: int = 0
    message: str = ""


@dataclass(slots=True)
class Stream:
    """One rank's collectives on one group from sequence number `base` on."""

    base: int = 0
    fingerprints: Numbers = field(default_factory=lambda: np.empty(0, np.uint64))
    balances: Numbers = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def end(self) -> int:
        """The number of collectives that the rank has begun on the group."""
        return self.base + len(self.fingerprints)


@dataclass(slots=True)
class View:
    """One rank.

    Attributes:
        members: Global ranks of each group that it has used, by the group's key.
        names: What reports call those groups.
        streams: Its collectives, by group key.
        messages: Its sends and receives, in order: group key and call.
        call: Describes the collective at a position of a group.
        newest: Group key and position of its last call of all, or None.
        stack: Where its main thread is, innermost first; empty where unknown.
        is_partial: Its oldest calls are not known; then its messages cannot be matched.
    """

    rank: int
    status: Status = "running"
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    messages: list[tuple[str, Call]] = field(default_factory=list)
    call: Callable[[str, int], Call | None] = lambda _key, _position: None
    newest: tuple[str, int] | None = None
    stack: tuple[str, ...] = ()
    remark: str = ""
    completed: Mapping[str, int] | None = None
    is_partial: bool = False


def describe(record: Mapping[str, int] | np.void, buffer: str = "") -> str:
    """`all_reduce sum float32 [1024]`, `broadcast float32 [8] root 1`, …; of which buffer."""
    op = OPS[int(record["op"])]
    words = [op]
    if int(record["reduce_op"]) != 255 and int(record["reduce_op"]) < len(REDUCE_OPS):
        words.append(REDUCE_OPS[int(record["reduce_op"])])
    if int(record["dtype"]) != 255:
        words.append(dtype_name(int(record["dtype"])))
        counts = (int(record["input_count"]), int(record["output_count"]))
        words.append(
            f"[{counts[0]}]" if counts[0] == counts[1] else f"[{counts[0]}] -> [{counts[1]}]"
        )
    peer = int(record["peer"])
    if peer >= 0:
        words.append({"send": "to", "recv": "from"}.get(op, "root") + f" {peer}")
    if buffer:
        words.append(f"of {buffer}")
    return " ".join(words)


def buffer_of(record: np.void, names: BufferNames) -> str:
    """What the hooks called the first tensor of a call when it was made."""
    if not names:
        return ""
    size_bytes = int(max(record["input_bytes"], record["output_bytes"]))
    given = names.at(int(record["buffer"]), size_bytes, int(record["begin_ns"]))
    # The first tensor of several, or an input beside a larger output.
    return given or names.at(int(record["buffer"]), 1, int(record["begin_ns"]))


def call_of(record: np.void, log: RankLog, names: BufferNames) -> Call:
    """A recorded call with its names."""
    op = OPS[int(record["op"])]
    frames = log.sites.get(int(record["site"]), ())
    message = ""
    if is_message(int(record["op"])):
        message = f"{dtype_name(int(record['dtype']))} [{int(record['input_count'])}]"
    what = describe(record, buffer_of(record, names))
    return Call(
        op, what, place(frames), phase_of(frames, op, int(record["flags"])),
        int(record["fingerprint"]), int(record["balance"]), int(record["peer"]),
        int(record["tag"]), message,
    )  # fmt: skip


def _without_gap(collectives: np.ndarray) -> np.ndarray:
    """The newest ones that follow each other; threads may have lost one of two in the ring."""
    gaps = np.flatnonzero(np.diff(collectives["sequence"]) != 1)
    return collectives[gaps[-1] + 1 :] if len(gaps) else collectives


def view_of(log: RankLog) -> View:
    """A rank as its files show it."""
    ended = bool(log.notes_of("end"))
    view = View(log.rank, "ended" if ended else "stopped", is_partial=log.lost > 0)
    by_key: dict[str, np.ndarray] = {}
    names = BufferNames(log.notes_of("name"))
    for number, group in log.groups.items():
        view.members[group.key] = group.ranks
        view.names[group.key] = group.name
        own = log.records[log.records["group"] == number]
        messages = np.isin(own["op"], MESSAGES)
        collectives = _without_gap(np.sort(own[~messages], order="sequence"))
        by_key[group.key] = collectives
        base = int(collectives["sequence"][0]) if len(collectives) else 0
        view.streams[group.key] = Stream(
            base, collectives["fingerprint"].copy(), collectives["balance"].copy()
        )
    for record in log.records:
        used = log.groups.get(int(record["group"]))
        if used is None:
            continue
        if is_message(int(record["op"])):
            view.messages.append((used.key, call_of(record, log, names)))
        else:
            view.newest = used.key, int(record["sequence"])

    def call(key: str, position: int) -> Call | None:
        records = by_key.get(key)
        if records is None or not len(records):
            return None
        index = position - int(records["sequence"][0])
        return call_of(records[index], log, names) if 0 <= index < len(records) else None

    view.call = call
    return view
