"""How long collectives took, on the stream where they ran, and the bandwidths that follow."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from streamguard.collectives.audit import audit_rank
from streamguard.collectives.nccl_times import NcclTimes
from streamguard.collectives.record import OPS, RECORD, Group, Records, read_logs
from streamguard.collectives.theory import bus_factor
from tests.collectives.launch import launch

RANKS = 2


def test_each_nccl_call_is_timed_within_the_program_s_own_events(tmp_path: Path) -> None:
    """The measured time of a call lies between the events that the program put around it.

    Calls on NCCL's own stream and batched messages have a time too, and the audit a bandwidth.
    """
    outcome = launch(
        "timed.py", ranks=RANKS, output=tmp_path, STREAMGUARD_AUDIT="1",
        STREAMGUARD_VGPU_VALUES="0",
    )  # fmt: skip
    assert outcome.statuses == [0] * RANKS, outcome.text[-3000:]
    log = read_logs(tmp_path)[0]
    lines = [x for x in outcome.texts[0].splitlines() if x.startswith("TIMES ")]
    own = json.loads(lines[0].removeprefix("TIMES "))
    names = [OPS[record["op"]] for record in log.records]
    lengths_ms = (log.records["end_ns"] - log.records["start_ns"]) / 1e6

    assert names == [*(name for name, _ in own), "all_reduce", "send", "recv"]
    assert np.all(lengths_ms > 0), lengths_ms
    for (name, around_ms), within_ms in zip(own, lengths_ms, strict=False):
        assert within_ms <= around_ms + 0.001, name
    # Both messages are one block of NCCL: they share its time by their equal sizes.
    assert lengths_ms[-1] == pytest.approx(lengths_ms[-2], rel=1e-3)
    for row in audit_rank(log).rows:
        assert row.algorithm_bandwidth is not None, row.op
        assert row.bus_bandwidth == pytest.approx(
            row.algorithm_bandwidth * float(bus_factor(row.op, RANKS))
        )


def test_without_timing_nothing_is_measured(tmp_path: Path) -> None:
    """STREAMGUARD_TIMING=0 leaves NCCL as it is."""
    outcome = launch(
        "timed.py", ranks=RANKS, output=tmp_path, STREAMGUARD_AUDIT="1", STREAMGUARD_TIMING="0",
        STREAMGUARD_VGPU_VALUES="0",
    )  # fmt: skip
    assert outcome.statuses == [0] * RANKS, outcome.text[-3000:]
    log = read_logs(tmp_path)[0]

    assert len(log.records) == 10
    assert not log.records["end_ns"].any()
    assert [row.bus_bandwidth for row in audit_rank(log).rows] == [None] * len(audit_rank(log).rows)


@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", Fraction(7, 4)),
        ("all_gather_into_tensor", Fraction(7, 8)),
        ("reduce_scatter_tensor", Fraction(7, 8)),
        ("all_to_all_single", Fraction(7, 8)),
        ("broadcast", Fraction(1)),
        ("reduce", Fraction(1)),
        ("gather", Fraction(7, 8)),
        ("scatter", Fraction(7, 8)),
        ("send", Fraction(1)),
        ("recv", Fraction(1)),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(op: str, factor: Fraction) -> None:
    """For 8 ranks, by the table in nccl-tests' doc/PERFORMANCE.md."""
    assert bus_factor(op, 8) == factor


class _Ring:
    """Calls of group 1 that began at the given times (ns)."""

    def __init__(self, *begins_ns: int) -> None:
        self.records = np.zeros(len(begins_ns), RECORD)
        self.records["number"] = np.arange(1, len(begins_ns) + 1)
        self.records["begin_ns"] = begins_ns
        self.records["group"] = 1
        self.records["input_bytes"] = 50

    def read(self, begin: int = 0) -> tuple[Records, int]:
        return self.records[begin:], len(self.records)


def _entry(number: int, created_ns: int, duration_ms: float | None, **others: object) -> object:
    is_done = duration_ms is not None
    entry = {
        "record_id": number, "process_group": ["0", "default_pg"], "collective_seq_id": number,
        "p2p_seq_id": 0, "profiling_name": "nccl:all_reduce", "input_sizes": [[4]],
        "retired": is_done, "time_created_ns": created_ns,
        "time_discovered_completed_ns": 90_000_000 if is_done else None,
    }  # fmt: skip
    return entry | ({"duration_ms": duration_ms} if is_done else {}) | others


def _times(ring: _Ring, *dumps: list[object]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}

    def keep(position: int, start_ns: int, end_ns: int) -> None:
        assert position not in found
        found[position] = start_ns, end_ns

    waiting = [json.dumps({"entries": entries}) for entries in dumps]
    times = NcclTimes(
        ring, {1: Group(1, "0", "default_pg", (0, 1), 0)}, keep, dump=lambda: waiting.pop(0)
    )
    while waiting:
        times.read()
    return found


def test_a_call_gets_the_time_of_the_entry_made_within_it() -> None:
    """One that runs still is looked at again; others keep what they were given."""
    ring = _Ring(100, 200, 300)
    running = [_entry(7, 110, 2.0), _entry(8, 210, None), _entry(9, 310, 4.0)]
    done = [_entry(7, 110, 2.0), _entry(8, 210, 3.0), _entry(9, 310, 4.0)]

    found = _times(ring, running, done)

    assert found == {
        0: (88_000_000, 90_000_000), 2: (86_000_000, 90_000_000), 1: (87_000_000, 90_000_000),
    }  # fmt: skip


def test_calls_of_a_block_share_its_time() -> None:
    """Two messages in one block of 4 ms; the entry of the block comes last and has no sizes."""
    block = {"collective_seq_id": 0, "p2p_seq_id": 1}
    entries = [
        _entry(0, 110, None, **block),
        _entry(1, 210, None, **block),
        _entry(2, 220, 4.0, **block, input_sizes=[], profiling_name="nccl:coalesced"),
    ]

    running = [*entries[:2], _entry(2, 220, None, **block, input_sizes=[],
                                    profiling_name="nccl:coalesced")]  # fmt: skip
    expected = {0: (86_000_000, 88_000_000), 1: (88_000_000, 90_000_000)}

    assert _times(_Ring(100, 200), entries) == expected
    assert _times(_Ring(100, 200), running[:2], running, entries) == expected


def test_a_call_that_was_not_recorded_changes_nothing() -> None:
    """Entries from before the first call, of another group, and a second one within a call."""
    entries = [
        _entry(0, 50, 1.0),
        _entry(1, 110, 2.0),
        _entry(2, 120, 9.0),
        _entry(3, 130, 9.0, process_group=["5", "other"]),
    ]

    assert _times(_Ring(100), entries) == {0: (88_000_000, 90_000_000)}
