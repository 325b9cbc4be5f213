"""`streamguard merge` and `show` on result directories."""

from __future__ import annotations

import json
import os
from pathlib import Path

from streamguard.report.build import build_finding
from streamguard.report.jsonl import to_line
from streamguard.report.model import Finding
from tests.cli.command import streamguard, summary
from tests.unit.ranks import rank_findings
from tests.unit.raw_findings import finding


def _directory(root: Path, name: str, rank: int, *findings: Finding) -> Path:
    directory = root / name
    directory.mkdir()
    found = rank_findings(rank, world_size=2, findings=findings)
    assert found.summary is not None
    records = [found.start, *findings, found.summary]
    path = directory / f"rank-{rank}-{found.start.pid}.jsonl"
    path.write_text("".join(to_line(record) for record in records))
    return path


def test_directories_of_two_nodes_make_one_report(tmp_path: Path) -> None:
    """The same pair on both nodes is one finding; the status says that there are races."""
    _directory(tmp_path, "a", 0, build_finding(finding(count=2)))
    _directory(tmp_path, "b", 1, build_finding(finding(count=3)))

    result = streamguard("merge", "a", "b", cwd=tmp_path)

    assert result.returncode == 66
    assert "seen      5 times on ranks 0-1" in result.stdout
    assert summary(result.stdout).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")


def test_damage_is_told_with_its_position_and_the_rest_is_kept(tmp_path: Path) -> None:
    """Good records survive a damaged one."""
    path = _directory(tmp_path, "a", 0, build_finding(finding()))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{damaged", *lines[1:]]) + "\n")

    result = streamguard("merge", "a", cwd=tmp_path)

    assert result.returncode == 66
    assert f"incomplete: damaged record left out: a/{path.name}:2: not JSON" in result.stdout
    assert summary(result.stdout).startswith("SUMMARY streamguard races=1 misuses=0 ranks=1/2")


def test_another_schema_is_refused_by_record(tmp_path: Path) -> None:
    """Records of a later version are left out by name, not guessed at."""
    path = _directory(tmp_path, "a", 0)
    values = json.loads(to_line(build_finding(finding())))
    with path.open("a") as file:
        file.write(json.dumps({**values, "schema": 2}) + "\n")

    result = streamguard("merge", "a", cwd=tmp_path)

    assert result.returncode == 0
    assert f"a/{path.name}:3: schema 2; this version of streamguard reads 1" in result.stdout


def test_an_empty_directory_checked_nothing(tmp_path: Path) -> None:
    """No rank is not clean."""
    (tmp_path / "a").mkdir()

    result = streamguard("merge", "a", cwd=tmp_path)

    assert result.returncode == 67
    assert summary(result.stdout).endswith("ranks=0/0 ops=0 accesses=0 status=checked-nothing")


def test_json_lines(tmp_path: Path) -> None:
    """Each record is one object; ranks and counts are added, the summary is last."""
    _directory(tmp_path, "a", 0, build_finding(finding(count=2)))
    _directory(tmp_path, "b", 1, build_finding(finding(count=3)))

    result = streamguard("merge", "--json", "a", "b", cwd=tmp_path)

    race, last = (json.loads(line) for line in result.stdout.splitlines())
    assert (race["type"], race["kind"], race["domain"]) == ("race", "WAR", "device")
    assert (race["count"], race["ranks"]) == (5, [[0, 2], [1, 3]])
    assert (last["type"], last["status"], last["races"]) == ("summary", "races", 1)
    assert (last["ranks"], last["missing_ranks"]) == ([0, 1], [])


def test_show_takes_a_directory_a_file_or_the_newest(tmp_path: Path) -> None:
    """It prints the report again and is never a verdict."""
    path = _directory(tmp_path, "streamguard-1", 0, build_finding(finding()))

    results = [
        streamguard("show", *arguments, cwd=tmp_path)
        for arguments in ([], ["streamguard-1"], [str(path.relative_to(tmp_path))])
    ]

    assert [result.returncode for result in results] == [0, 0, 0]
    assert len({result.stdout for result in results}) == 1
    assert "SG002" in results[0].stdout


def test_a_directory_named_twice_counts_once(tmp_path: Path) -> None:
    """Also by another path to it."""
    _directory(tmp_path, "a", 0, build_finding(finding(count=2)))
    (tmp_path / "again").symlink_to("a")

    result = streamguard("merge", "a", "a/", "again", cwd=tmp_path)

    assert "seen      2 times on rank 0" in result.stdout
    assert summary(result.stdout).startswith("SUMMARY streamguard races=1 misuses=0 ranks=1/2")


def test_a_pipe_among_the_results_is_left_out(tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    directory = _directory(tmp_path, "a", 0, build_finding(finding())).parent
    os.mkfifo(directory / "rank-1-7.jsonl")

    result = streamguard("show", "a", cwd=tmp_path)

    assert result.returncode == 0
    assert "incomplete: a/rank-1-7.jsonl: not a regular file, left out" in result.stdout
    assert "SG002" in result.stdout


def test_an_absurd_world_size_is_damage(tmp_path: Path) -> None:
    """A thousand million missing ranks would not fit into memory."""
    path = _directory(tmp_path, "a", 0, build_finding(finding()))
    path.write_text(path.read_text().replace('"world_size":2', '"world_size":1000000000', 1))

    result = streamguard("show", "a", cwd=tmp_path)

    assert f"a/{path.name}:1: " in result.stdout
    assert "an integer from 0 to 1000000" in result.stdout
