"""Tests of `streamguard.node_report`: waiting for the other ranks of a node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamguard.node_report import (
    print_node_report,
    report_path,
    wait_until_written,
)
from streamguard.report.build import build_finding
from streamguard.report.jsonl import to_line
from streamguard.report.model import RankFindings
from tests.unit.ranks import rank_findings
from tests.unit.raw_findings import finding


def _write(directory: Path, rank: RankFindings) -> None:
    path = directory / f"rank-{rank.start.rank}-{rank.start.pid}.jsonl"
    records = [rank.start, *rank.findings]
    if rank.summary is not None:
        records.append(rank.summary)
    path.write_text("".join(to_line(record) for record in records))


def test_it_waits_for_a_live_rank_until_its_summary_is_there(tmp_path: Path) -> None:
    """The other rank is asked for; once it has written its summary the wait ends."""
    own = rank_findings(0, world_size=2)
    unfinished = rank_findings(1, world_size=2, has_summary=False)
    _write(tmp_path, own)
    _write(tmp_path, unfinished)
    asked: list[int] = []

    def is_alive(pid: int) -> bool:
        asked.append(pid)
        if len(asked) == 3:
            _write(tmp_path, rank_findings(1, world_size=2))
        return True

    wait_until_written(tmp_path, own.start, timeout_s=60, is_alive=is_alive)

    assert asked == [1001, 1001, 1001]


def test_it_waits_for_a_rank_that_has_not_reported_in_yet(tmp_path: Path) -> None:
    """Rank 1 opens its file after rank 0 has ended, and writes its summary later still."""
    own = rank_findings(0, world_size=3)
    _write(tmp_path, own)
    _write(tmp_path, rank_findings(2, world_size=3, has_summary=False))
    asked: list[int] = []

    def is_alive(pid: int) -> bool:
        asked.append(pid)
        if asked == [1002, 1002]:
            _write(tmp_path, rank_findings(1, world_size=3, has_summary=False))
        if asked.count(1001) == 2:
            _write(tmp_path, rank_findings(1, world_size=3))
        return pid == 1001

    wait_until_written(tmp_path, own.start, timeout_s=60, is_alive=is_alive)

    assert asked == [1002, 1002, 1001, 1002, 1001, 1002, 1002]


def test_only_ranks_of_this_node_that_are_watched_are_missed(tmp_path: Path) -> None:
    """Rank 1 is not selected and ranks 2 and 3 are on another node: nothing to wait for."""
    own = rank_findings(0, world_size=4)
    start = replace(own.start, local_world_size=2, selected_ranks=(0, 2))
    _write(tmp_path, replace(own, start=start))

    def is_alive(pid: int) -> bool:
        raise AssertionError(f"asked for process {pid}")

    wait_until_written(tmp_path, start, timeout_s=60, is_alive=is_alive)


def test_it_does_not_wait_for_the_dead_nor_for_others(tmp_path: Path) -> None:
    """Ranks that are gone, on another host, of another run, and launchers are not waited for."""
    own = rank_findings(0, world_size=2)
    dead = rank_findings(1, world_size=2, has_summary=False)
    _write(tmp_path, dead)
    others = ((2, {"host": "ffffffffffff"}), (3, {"run": "run-0"}), (4, {"world_size": 1}))
    for rank, change in others:
        other = rank_findings(rank, world_size=2, has_summary=False)
        _write(tmp_path, replace(other, start=replace(other.start, **change)))
    asked: list[int] = []

    def is_alive(pid: int) -> bool:
        asked.append(pid)
        return False

    wait_until_written(tmp_path, own.start, timeout_s=60, is_alive=is_alive)

    assert asked == [1001]


def test_the_wait_is_bounded(tmp_path: Path) -> None:
    """A rank that hangs does not hang the report."""
    own = rank_findings(0, world_size=2)
    _write(tmp_path, rank_findings(1, world_size=2, has_summary=False))

    wait_until_written(tmp_path, own.start, timeout_s=0, is_alive=lambda _: True)


def test_the_report_joins_the_ranks_of_this_node_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same run and host; the text goes to stderr and into the directory."""
    own = rank_findings(0, world_size=2, findings=[build_finding(finding())])
    _write(tmp_path, own)
    _write(tmp_path, rank_findings(1, world_size=2, findings=[build_finding(finding())]))
    stale = rank_findings(0, pid=5, world_size=2)
    _write(tmp_path, replace(stale, start=replace(stale.start, run="run-0")))

    print_node_report(own.start, tmp_path, own=own, patterns=())

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "seen      6 times on ranks 0-1" in captured.err
    assert captured.err.splitlines()[-1].startswith(
        "SUMMARY streamguard races=1 misuses=0 ranks=2/2"
    )
    assert report_path(tmp_path, own.start.run, own.start.host).read_text() == captured.err


def test_what_could_not_be_written_is_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings kept in memory are printed though the directory has no file of this rank."""
    own = rank_findings(0, findings=[build_finding(finding())], problems=("cannot write",))

    print_node_report(own.start, tmp_path / "absent", own=own, patterns=())

    error = capsys.readouterr().err
    assert "SG002" in error
    assert "incomplete: rank 0: cannot write" in error
