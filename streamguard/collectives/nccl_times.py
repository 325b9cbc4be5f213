"""When NCCL's collectives really ran, from the events that ProcessGroupNCCL keeps of them.

It records a pair of pooled CUDA events around each call, on the stream where the call runs, and its
watchdog queries them behind the run; PyTorch's Flight Recorder keeps the time between the two. So
no event, no query and no wait of ours comes near the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamguard.collectives.record import Group, Records

_PERIOD_S = 0.5
_BUSY_PERIOD_S = 0.1
# The Flight Recorder holds 2,000 calls unless it is told otherwise.
_BUSY_CALLS = 500
_LAST_WAIT_S = 1.0
_KEPT_CALLS = 20_000

Entry = Mapping[str, object]


class Reader(Protocol):
    """What `RingReader` does."""

    def read(self, begin: int = 0) -> tuple[Records, int]:
        """The records from a position on, and the next position."""


@dataclass(slots=True)
class _Calls:
    """The recorded calls of the groups of one name, in the order in which they began."""

    begins_ns: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    sizes_bytes: list[int] = field(default_factory=list)
    timed: set[int] = field(default_factory=set)


class NcclTimes:
    """Reads the Flight Recorder and writes start and end into the ring.

    Args:
        ring: The calls of this process.
        groups: Its groups, by the number that records carry.
        set_times: Takes position, start and end (ns).
        dump: The Flight Recorder's entries as JSON; by default torch's own of this process.
    """

    def __init__(
        self,
        ring: Reader,
        groups: Mapping[int, Group],
        set_times: Callable[[int, int, int], None],
        *,
        dump: Callable[[], str | bytes] | None = None,
    ) -> None:
        self._ring = ring
        self._groups = groups
        self._set_times = set_times
        self._dump = dump or dump_of_torch
        self._position = 0
        self._calls: dict[str, _Calls] = {}
        self._next_entry = 0
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="streamguard-times", daemon=True)

    def start(self) -> None:
        """Read behind the run from now on."""
        self._thread.start()

    def settle(self) -> None:
        """Wait a little for the newest calls; after that the groups may be destroyed."""
        deadline = time.monotonic() + _LAST_WAIT_S
        while self.read() and time.monotonic() < deadline:
            time.sleep(0.05)

    def stop(self) -> None:
        """Read what is there and end the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self.settle()

    def read(self) -> int:
        """Take in what has completed since; returns how many calls are still running."""
        with self._lock:
            self._take_calls()
            entries = json.loads(self._dump()).get("entries", [])
            new = [entry for entry in entries if entry["record_id"] >= self._next_entry]
            for entry, members in _with_members(new):
                self._give_time(entry, members)
            # Calls of a block never get a time of their own; they are needed until it has one.
            done = {_block_key(e) for e in new if _is_block(e) and e["retired"]}
            running = [e for e in new if not e["retired"] and _block_key(e) not in done]
            first_running = min((e["record_id"] for e in running), default=None)
            if new:
                self._next_entry = (
                    new[-1]["record_id"] + 1 if first_running is None else first_running
                )
            return len(running)

    def _run(self) -> None:
        period_s = _PERIOD_S
        while not self._stopping.wait(period_s):
            before = self._position
            self.read()
            is_busy = self._position - before > _BUSY_CALLS
            period_s = _BUSY_PERIOD_S if is_busy else _PERIOD_S

    def _take_calls(self) -> None:
        records, self._position = self._ring.read(self._position)
        for record in records:
            group = self._groups.get(int(record["group"]))
            if group is None:
                continue
            calls = self._calls.setdefault(group.key.partition("#")[0], _Calls())
            calls.begins_ns.append(int(record["begin_ns"]))
            calls.positions.append(int(record["number"]) - 1)
            calls.sizes_bytes.append(int(record["input_bytes"] + record["output_bytes"]))
        for calls in self._calls.values():
            # The Flight Recorder no longer has them.
            drop = len(calls.begins_ns) - _KEPT_CALLS
            if drop > 0:
                calls.timed.difference_update(calls.positions[:drop])
                del calls.begins_ns[:drop], calls.positions[:drop], calls.sizes_bytes[:drop]

    def _give_time(self, entry: Entry, members: Iterable[Entry]) -> None:
        duration = entry.get("duration_ms")
        if not isinstance(duration, float | int):
            return
        end = _number(entry, "time_discovered_completed_ns")
        shares: dict[int, int] = {}
        calls = self._calls.get(group_name(entry))
        if calls is None:
            return
        for one in (*members,) or (entry,):
            # Whoever began last before the entry was made has made it.
            index = bisect_right(calls.begins_ns, _number(one, "time_created_ns")) - 1
            if index >= 0 and calls.positions[index] not in calls.timed:
                # An empty message takes its share of the time too.
                shares[calls.positions[index]] = calls.sizes_bytes[index] + 1
        calls.timed.update(shares)
        total_ns, total = int(duration * 1e6), sum(shares.values())
        start = end - total_ns
        for position, size in shares.items():
            length = total_ns * size // total
            self._set_times(position, start, start + length)
            start += length


def obstacle() -> str:
    """Why NCCL's calls cannot be timed; "" if they can."""
    for variable in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        if os.environ.get(variable) == "0":
            return f"{variable}=0 turns PyTorch's Flight Recorder off, which keeps the times"
    return ""


def turn_on(group: object) -> bool:
    """Have a group's NCCL backend time its calls from now on; False where it has none."""
    import torch

    # Other backends refuse, and torch without NCCL has no such class.
    with contextlib.suppress(RuntimeError, AttributeError, ImportError):
        backend = group._get_backend(torch.device("cuda"))  # type: ignore[attr-defined]
        if backend.name() != "nccl":
            return False
        backend._enable_collectives_timing()
        return True
    return False


def dump_of_torch() -> bytes:
    """The Flight Recorder's entries of this process, as JSON."""
    from torch._C import _distributed_c10d

    dump: bytes = _distributed_c10d._dump_nccl_trace_json(  # type: ignore[attr-defined]
        includeCollectives=True, onlyActive=False
    )
    return dump


def _with_members(entries: list[dict[str, object]]) -> Iterable[tuple[Entry, list[Entry]]]:
    """Every entry that has a time of its own, with the calls of its coalesced block."""
    open_calls: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        if _is_block(entry):
            yield entry, open_calls.pop(_block_key(entry), [])
        elif entry["retired"]:
            yield entry, []
        else:
            open_calls.setdefault(_block_key(entry), []).append(entry)


def _is_block(entry: Entry) -> bool:
    return not entry["input_sizes"] and str(entry["profiling_name"]).endswith("coalesced")


def _block_key(entry: Entry) -> tuple[object, ...]:
    return group_name(entry), entry["collective_seq_id"], entry["p2p_seq_id"]


def group_name(entry: Entry) -> str:
    """The name that torch gives the group of a call."""
    name = entry["process_group"]
    return str(name[0]) if isinstance(name, list) and name else ""


def _number(entry: Entry, key: str) -> int:
    value = entry.get(key)
    return value if isinstance(value, int) else 0
