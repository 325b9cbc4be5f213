"""Tests of `streamguard.report.merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamguard.report.build import build_finding, build_watched
from streamguard.report.jsonl import to_line
from streamguard.report.merge import merge_ranks, read_directory
from streamguard.report.model import Frame, Misuse
from tests.unit.ranks import rank_findings
from tests.unit.raw_findings import access, finding, reduction, watched


def _bucket(index: int, **changes: Any) -> dict[str, Any]:
    named = [{"name": f"ipg_buffer[{index}]", "begin": 0, "end": 64}]
    overlap = {"begin": 0, "end": 64, "names_first": named, "names_second": named}
    return finding(id=index + 1, overlap=overlap, **changes)


def test_one_pair_on_several_ranks_is_one_finding_with_counts() -> None:
    """Devices, addresses and epochs differ between ranks; the pair is the same."""
    other_stream = {"device": 1, "handle": 0, "id": 0, "name": "default stream (device 1)"}
    second = access(stream=other_stream, epoch=999, op_id=1, allocation=3)
    rank_0 = rank_findings(0, world_size=2, findings=[build_finding(finding(count=3))])
    rank_1 = rank_findings(
        1, world_size=2, findings=[build_finding(finding(id=8, count=4, second=second))]
    )

    report = merge_ranks([rank_1, rank_0])

    assert [(item.finding.code, item.counts, item.total) for item in report.findings] == [
        ("SG002", ((0, 3), (1, 4)), 7)
    ]
    assert report.findings[0].finding == rank_0.findings[0]


def test_two_pairs_of_one_rank_stay_two() -> None:
    """The same lines on two buffers are two findings, matched by name across ranks."""
    rank_0 = rank_findings(
        0, world_size=2, findings=[build_finding(_bucket(0)), build_finding(_bucket(1))]
    )
    rank_1 = rank_findings(
        1,
        world_size=2,
        findings=[build_finding(_bucket(1, count=5)), build_finding(_bucket(0, count=7))],
    )

    report = merge_ranks([rank_0, rank_1])

    merged = {item.finding.overlap.names_first[0].name: item.counts for item in report.findings}
    assert merged == {
        "ipg_buffer[0]": ((0, 3), (1, 7)),
        "ipg_buffer[1]": ((0, 3), (1, 5)),
    }


def test_pairs_that_differ_in_kind_stream_or_line_are_not_joined() -> None:
    """What tells pairs apart: code, kind, ops, streams by role, lines."""
    other_line = [["/job/train.py", 99, "main"]]
    changed = [
        finding(),
        finding(code="SG001", kind="RAW"),
        finding(first=reduction(op="c10d::allgather_")),
        finding(second=access(stream={"device": 0, "handle": 9, "name": "stream 9 (device 0)"})),
        finding(second=access(frames=other_line)),
    ]
    ranks = [
        rank_findings(rank, world_size=5, findings=[build_finding(raw)])
        for rank, raw in enumerate(changed)
    ]

    report = merge_ranks(ranks)

    assert [item.counts for item in report.findings] == [((rank, 3),) for rank in range(5)]


def test_ranks_that_never_reported_and_ranks_that_died_are_named() -> None:
    """The world size of those that reported tells who is missing."""
    report = merge_ranks(
        [
            rank_findings(0, world_size=4),
            rank_findings(2, world_size=4, has_summary=False, findings=[build_finding(finding())]),
        ]
    )

    assert report.expected_ranks == (0, 1, 2, 3)
    assert report.missing_ranks == (1, 3)
    assert report.died_ranks == (2,)
    assert report.status == "races"


def test_only_selected_ranks_are_expected() -> None:
    """With `--ranks 0,3` the ranks 1 and 2 are not missing."""
    from dataclasses import replace

    rank = rank_findings(0, world_size=4)
    rank = replace(rank, start=replace(rank.start, selected_ranks=(0, 3)))

    report = merge_ranks([rank])

    assert (report.expected_ranks, report.missing_ranks) == ((0, 3), (3,))


def test_checked_nothing_is_judged_over_all_ranks() -> None:
    """One rank that saw ops is enough; none is not clean."""
    idle = rank_findings(0, world_size=2, ops=0)
    busy = rank_findings(1, world_size=2, ops=1)

    assert merge_ranks([]).status == "checked-nothing"
    assert merge_ranks([idle]).status == "checked-nothing"
    assert merge_ranks([idle, busy]).status == "clean"


def test_a_killed_rank_with_a_finding_checked_something() -> None:
    """Without its summary the number of ops is unknown, but the race was seen."""
    killed = rank_findings(findings=[build_finding(finding())], has_summary=False)

    report = merge_ranks([killed])

    assert (report.status, report.checked_nothing) == ("races", False)


def test_a_launcher_that_initialised_cuda_is_no_rank() -> None:
    """Beside ranks of a group, or beside work, an idle process of no group does not count."""
    launcher = rank_findings(0, pid=1, ops=0)
    group = [rank_findings(rank, world_size=2) for rank in (0, 1)]
    alone = rank_findings(0, pid=2)

    assert [rank.start.pid for rank in merge_ranks([launcher, *group]).ranks] == [1000, 1001]
    assert [rank.start.pid for rank in merge_ranks([launcher, alone]).ranks] == [2]
    assert [rank.start.pid for rank in merge_ranks([launcher]).ranks] == [1]


def test_an_idle_rank_of_a_group_and_a_killed_program_count() -> None:
    """Nobody is left out who may have had something to say."""
    idle = [rank_findings(rank, world_size=2, ops=0) for rank in (0, 1)]
    killed = rank_findings(0, pid=1, has_summary=False)
    worked = rank_findings(0, pid=2)

    assert len(merge_ranks(idle).ranks) == 2
    assert merge_ranks([killed, worked]).died_ranks == (0,)


def test_misuses_do_not_make_races() -> None:
    """SG1xx never changes the verdict; the same one on two ranks is one with counts."""
    frame = (Frame("/job/a.py", 3, "f"),)
    ranks = [
        rank_findings(
            rank, world_size=2, misuses=[Misuse(1, "SG101", rank + 1, 0, "early free", frame)]
        )
        for rank in (0, 1)
    ]

    report = merge_ranks(ranks)

    assert report.status == "clean"
    assert [item.counts for item in report.misuses] == [((0, 1), (1, 2))]


def test_rows_of_the_access_table_join_bytes_steps_and_ranks() -> None:
    """Many parameters copied into one bucket make one row."""
    accesses = [
        build_watched(watched(offset=[64, 128], step=3, count=1)),
        build_watched(watched(offset=[0, 64], step=1, count=2)),
    ]
    ranks = [rank_findings(rank, world_size=2, accesses=accesses) for rank in (0, 1)]

    report = merge_ranks(ranks)

    rows = [
        (row.access.begin, row.access.end, row.access.count, row.access.step, row.ranks)
        for row in report.accesses
    ]
    assert rows == [(0, 128, 6, 1, (0, 1))]


def test_a_row_keeps_every_way_in_which_pairs_were_ordered() -> None:
    """An unordered pair is never hidden behind an ordered one of the same op; repeats are one."""
    unordered = watched()
    earlier = dict(unordered["ordered_after"][0], edge={"kind": "none"})
    unordered = {**unordered, "ordered_after": [earlier]}
    accesses = [build_watched(raw) for raw in (watched(), unordered, watched(), unordered)]

    (row,) = merge_ranks([rank_findings(accesses=accesses)]).accesses

    assert [earlier.edge.kind for earlier in row.access.ordered_after] == ["event_wait", "none"]
    assert row.access.count == 8


def test_a_directory_is_read_with_notes_on_damage(tmp_path: Path) -> None:
    """Ranks come in order; other files are left alone; damage is a note with its position."""
    for rank in (10, 9):
        found = rank_findings(rank, world_size=11)
        path = tmp_path / f"rank-{rank}-{found.start.pid}.jsonl"
        path.write_text(to_line(found.start) + ("{\n" if rank == 9 else ""))
    (tmp_path / "report.txt").write_text("no records")

    result = read_directory(tmp_path)

    assert [rank.start.rank for rank in result.ranks] == [9, 10]
    assert len(result.notes) == 1
    assert f"{tmp_path}/rank-9-1009.jsonl:2:" in result.notes[0]


def test_an_absent_or_empty_directory_has_no_ranks(tmp_path: Path) -> None:
    """That is a run without ranks, not an error."""
    assert read_directory(tmp_path).ranks == []
    assert read_directory(tmp_path / "absent").ranks == []
