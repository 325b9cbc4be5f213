"""Tests of the fewest waits of a report: `streamguard.report.waits`."""

from __future__ import annotations

import itertools
import random

from streamguard.report.build import build_finding
from streamguard.report.model import MergedFinding, Report
from streamguard.report.waits import needed_waits, waits_lines
from tests.unit.raw_findings import DEFAULT_STREAM, REDUCTION_STREAM, Raw, access, finding

_AT = [["/job/train.py", 12, "step"]]


def report_of(*raws: Raw, rank: int = 0) -> Report:
    """A report of one rank."""
    return Report(
        findings=tuple(MergedFinding(build_finding(raw), ((rank, raw["count"]),)) for raw in raws)
    )


def race(first: int, second: int, *, back: bool = False, **changes: object) -> Raw:
    """A race of two ops, from the reduction stream to the default one or back."""
    streams = [REDUCTION_STREAM, DEFAULT_STREAM]
    if back:
        streams.reverse()
    return finding(
        first=access(op_id=first, stream=streams[0], frames=_AT),
        second=access(op_id=second, stream=streams[1], frames=_AT),
        **changes,
    )


def summary(report: Report) -> list[tuple[int, int, tuple[int, ...]]]:
    """Each wait as (after op, before op, races)."""
    return [(wait.after.op_id, wait.before.op_id, wait.races) for wait in needed_waits(report)]


def test_a_wait_orders_all_races_that_span_it() -> None:
    """After the newest first access, before the oldest second one; the newest wait is used."""
    report = report_of(race(1, 9), race(3, 5), race(5, 7))

    assert summary(report) == [(3, 5, (1,)), (5, 7, (2, 0))]


def test_directions_ranks_and_uses_after_free_are_kept_apart() -> None:
    """A wait serves one direction of one rank; none repairs a use after free."""
    here = report_of(race(1, 4), race(2, 3, back=True), race(1, 4, domain="lifetime"))
    there = report_of(race(2, 5), rank=1)
    report = Report(findings=here.findings + there.findings)

    assert summary(report) == [(2, 3, (1,)), (1, 4, (0,)), (2, 5, (3,))]


def test_no_smaller_set_orders_all_races() -> None:
    """Against every choice of places, on random races of one direction."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choose = random.Random(seed)
    for _ in range(200):
        spans = [sorted(choose.sample(range(9), 2)) for _ in range(choose.randrange(1, 6))]
        smallest = next(
            size
            for size in range(1, 9)
            for places in itertools.combinations(range(1, 9), size)
            if all(any(first < at <= second for at in places) for first, second in spans)
        )

        waits = needed_waits(report_of(*(race(first, second) for first, second in spans)))

        assert len(waits) == smallest
        for wait in waits:
            for index in wait.races:
                assert spans[index][0] <= wait.after.op_id < wait.before.op_id <= spans[index][1]


def test_the_text_says_where_each_wait_goes() -> None:
    """Nothing for one race: its own repair is the wait."""
    assert list(waits_lines(report_of(race(1, 9)))) == []

    lines = list(waits_lines(report_of(race(1, 9), race(3, 5))))

    assert lines == [
        "1 wait orders all 2 races, each as it was first seen",
        "  default stream (device 0) waits for reduction_stream: after aten::copy_ (train.py:12), "
        "before aten::copy_ (train.py:12); races 1-2 above",
    ]
