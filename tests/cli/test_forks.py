"""Forked children: ranks of their own where they can be, else helpers that write no file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import streamguard, summary

FORKS = (sys.executable, str(Path(__file__).with_name("programs") / "forks.py"))


def result_files(directory: Path) -> list[list[dict[str, object]]]:
    """The records of each result file."""
    return [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted(directory.glob("**/rank-*.jsonl"))
    ]


@pytest.mark.parametrize("words", [(), ("group",)])
def test_a_race_in_forked_children_is_found(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The parent is no rank, or one that did not use CUDA: each child is watched on its own."""
    result = streamguard("run", "--vgpu", "1", "--", *FORKS, *words, cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert result.stderr.count("SG001 read-after-write race") == 1
    files = [
        records
        for records in result_files(tmp_path)
        if any(record["type"] == "race" for record in records)
    ]
    assert len(files) == 2
    for records in files:
        assert [record["type"] for record in records] == ["start", "race", "race", "summary"]
        assert len({record["pid"] for record in records if "pid" in record}) == 1


def test_the_same_children_are_clean_behind_a_wait(tmp_path: Path) -> None:
    """The twin differs in one wait."""
    result = streamguard("run", "--vgpu", "1", "--", *FORKS, "ordered", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert summary(result.stderr).endswith("ops=6 accesses=8 status=clean")


def test_children_that_end_at_once_keep_what_was_found(tmp_path: Path) -> None:
    """Without Python's exit functions there is no summary, and the finding is in the file."""
    result = streamguard("run", "--vgpu", "1", "--", *FORKS, "quit", cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert result.stderr.count("SG001 read-after-write race") == 1


def test_children_of_a_busy_rank_neither_hang_nor_write(tmp_path: Path) -> None:
    """Two threads hold and release the detector's locks while the process forks."""
    result = streamguard("run", "--vgpu", "1", "--", *FORKS, "used", cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert result.stdout == "child saw 0 waits\n" * 6
    (records,) = result_files(tmp_path)
    assert [record["type"] for record in records] == ["start", "race", "race", "summary"]
    assert records[-1]["pid"] == records[0]["pid"]


def test_a_trace_is_written_for_each_child(tmp_path: Path) -> None:
    """Each trace holds its child's ops from the first, so that it can be replayed alone."""
    run_ = streamguard(*("run", "--vgpu", "1", "--trace", "traces", "--", *FORKS), cwd=tmp_path)
    traces = sorted((tmp_path / "traces").iterdir())

    assert len(traces) == 2, run_.stderr
    for trace in traces:
        replayed = streamguard("replay", str(trace), cwd=tmp_path)
        assert replayed.stdout.count("SG001 read-after-write race") == 1
