"""One real program on the virtual GPU under `streamguard run` and under `STREAMGUARD=1`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, clean_environment, run, streamguard, summary

PROGRAMS = Path(__file__).parent / "programs"
TWO_STREAMS = ("python", str(PROGRAMS / "two_streams.py"))
WATCHED = {"STREAMGUARD": "1", "STREAMGUARD_VGPU": "1"}


def _line_of(text: str) -> int:
    lines = (PROGRAMS / "two_streams.py").read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, start=1) if text in line]
    return number


def _records(directory: Path) -> list[dict[str, object]]:
    (path,) = directory.glob("rank-*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_race_gives_66_and_names_both_accesses(tmp_path: Path) -> None:
    """The pair with ops, streams and lines; the program's output is as without us."""
    result = streamguard("run", "--vgpu", "1", "--output", "out", "--", *TWO_STREAMS, cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert result.stdout == "result 2.0\n"
    races = [record for record in _records(tmp_path / "out") if record["type"] == "race"]
    assert {(race["code"], race["kind"], race["domain"], race["count"]) for race in races} == {
        ("SG001", "RAW", "device", 1)
    }
    assert "SG001 read-after-write race: aten::mul on default stream (device 0)" in result.stderr
    for text in ("values.add_(1)", "doubled = values * 2"):
        assert f"two_streams.py:{_line_of(text)} in double_after_add" in result.stderr
    assert summary(result.stderr).startswith("SUMMARY streamguard races=1 misuses=0 ranks=1/1")
    assert (tmp_path / "out" / "report.txt").read_text() in result.stderr


def test_repeats_are_counted(tmp_path: Path) -> None:
    """A pair is written when it is found, and again with its count at the end."""
    streamguard("run", "--vgpu", "1", "--output", "out", "--", *TWO_STREAMS, "again", cwd=tmp_path)

    races = [record for record in _records(tmp_path / "out") if record["type"] == "race"]
    assert [(race["id"], race["count"]) for race in races] == [(0, 1), (0, 2)]


def test_the_repaired_program_gives_0(tmp_path: Path) -> None:
    """The twin with the wait is clean, and says that it saw the ops."""
    result = streamguard("run", "--vgpu", "1", "--", *TWO_STREAMS, "repaired", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    line = summary(result.stderr)
    assert line.startswith("SUMMARY streamguard races=0 misuses=0 ranks=1/1 ops=")
    assert line.endswith("status=clean")
    assert " ops=0 " not in line


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["raise"], 1, "RuntimeError: the program's own error"),
        (["exit"], 3, "SG001"),
        (["kill"], 137, "incomplete: rank 0 wrote no summary"),
    ],
)
def test_the_programs_own_end_is_kept_beside_the_findings(
    tmp_path: Path, words: list[str], status: int, text: str
) -> None:
    """Traceback and status are the program's; also a killed rank's finding is reported."""
    result = streamguard("run", "--vgpu", "1", "--", *TWO_STREAMS, *words, cwd=tmp_path)

    assert result.returncode == status, result.stderr
    assert text in result.stderr
    assert "SG001" in result.stderr
    assert summary(result.stderr).endswith("status=races")


def test_without_cuda_nothing_was_checked(tmp_path: Path) -> None:
    """67; workers and child processes are no ranks and leave no file."""
    program = str(PROGRAMS / "helpers_only.py")

    result = streamguard("run", "--vgpu", "1", "--", "python", program, cwd=tmp_path)

    assert result.returncode == 67, result.stderr
    assert result.stdout == "total 28.0\n"
    assert "checked nothing: no process initialised CUDA" in result.stderr
    assert summary(result.stderr).endswith("ranks=0/0 ops=0 accesses=0 status=checked-nothing")
    assert list(tmp_path.iterdir()) == []


def test_error_exitcode_and_json(tmp_path: Path) -> None:
    """The status for races can be chosen; JSON lines follow the program's own output."""
    result = streamguard(
        *("run", "--vgpu", "1", "--error-exitcode", "9", "--json", "--", *TWO_STREAMS),
        cwd=tmp_path,
    )

    assert result.returncode == 9, result.stderr
    first, *lines = result.stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert first == "result 2.0"
    assert [record["type"] for record in records] == ["race", "summary"]
    assert (records[1]["status"], records[1]["ranks"]) == ("races", [0])
    assert "SG001" not in result.stderr


@pytest.mark.parametrize(("words", "status"), [("", 66), ("repaired", 0)])
def test_the_status_stands_when_the_report_cannot_be_printed(
    words: str, status: int, tmp_path: Path
) -> None:
    """A full standard error loses the text, not what it would have said."""
    program = " ".join([*TWO_STREAMS, *words.split()])
    command = f"{' '.join(COMMAND)} run --vgpu 1 --output out -- {program} 2>/dev/full"

    result = run("sh", "-c", command, cwd=tmp_path)

    assert result.returncode == status
    assert "SUMMARY streamguard" in (tmp_path / "out" / "report.txt").read_text()


def test_another_run_in_the_same_directory_is_reported_as_well(tmp_path: Path) -> None:
    """The report of an earlier run does not pass for this one's."""
    environ = clean_environment(**WATCHED, STREAMGUARD_OUTPUT=str(tmp_path / "out"))
    run(*TWO_STREAMS, cwd=tmp_path, environ=environ)

    nothing = run(sys.executable, "-c", "import torch", cwd=tmp_path, environ=environ)

    assert "checked nothing" in nothing.stderr


def test_the_variable_alone_reports_and_leaves_the_status(tmp_path: Path) -> None:
    """No code change, no wrapper: the report on stderr, status 0, files in ./streamguard-<run>."""
    result = run(*TWO_STREAMS, "chdir", cwd=tmp_path, environ=clean_environment(**WATCHED))

    assert result.returncode == 0, result.stderr
    assert result.stdout == "result 2.0\n"
    assert result.stderr.count("SG001 read-after-write race") == 1
    (directory,) = tmp_path.glob("streamguard-*")
    assert len(list(directory.glob("rank-0-*.jsonl"))) == 1


@pytest.mark.parametrize(
    ("words", "status"), [([], 66), (["repaired"], 0), (["exit"], 3), (["raise"], 1)]
)
def test_findings_decide_the_status_when_asked_to(
    tmp_path: Path, words: list[str], status: int
) -> None:
    """STREAMGUARD_EXIT=1: the program's own status if it is not 0, else the verdict; one report."""
    environ = clean_environment(**WATCHED, STREAMGUARD_EXIT="1")

    result = run(*TWO_STREAMS, *words, cwd=tmp_path, environ=environ)

    assert result.returncode == status, result.stderr
    assert result.stderr.count("SUMMARY streamguard") == 1


def test_a_raising_program_without_wrapper_keeps_traceback_and_status(tmp_path: Path) -> None:
    """The report comes after the program's own traceback."""
    result = run(*TWO_STREAMS, "raise", cwd=tmp_path, environ=clean_environment(**WATCHED))

    assert result.returncode == 1
    own = result.stderr.index("RuntimeError: the program's own error")
    assert own < result.stderr.index("SG001")


def test_without_the_variable_nothing_happens(tmp_path: Path) -> None:
    """Only the virtual GPU is switched on: no report, no file."""
    environ = clean_environment(STREAMGUARD_VGPU="1")

    result = run(*TWO_STREAMS, cwd=tmp_path, environ=environ)

    assert (result.returncode, result.stdout) == (0, "result 2.0\n")
    assert "SUMMARY" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_said_once(tmp_path: Path) -> None:
    """The program goes on, and its findings are printed all the same."""
    (tmp_path / "file").write_text("")
    environ = clean_environment(**WATCHED, STREAMGUARD_OUTPUT="file/inside")

    result = run(*TWO_STREAMS, cwd=tmp_path, environ=environ)

    assert (result.returncode, result.stdout) == (0, "result 2.0\n")
    assert result.stderr.count("streamguard: cannot write to") == 1
    assert "Not a directory" in result.stderr
    assert result.stderr.count("SG001 read-after-write race") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("wrapper", [False, True])
def test_a_full_disk_is_said_once(tmp_path: Path, wrapper: bool) -> None:
    """When the file cannot grow any more, findings are kept in memory and printed at the end."""
    if wrapper:
        result = streamguard("run", "--vgpu", "1", "--", *TWO_STREAMS, "full", cwd=tmp_path)
    else:
        environ = clean_environment(**WATCHED)
        result = run(*TWO_STREAMS, "full", cwd=tmp_path, environ=environ)

    assert result.stdout == "result 2.0\n"
    assert result.stderr.count("streamguard: cannot write to") == 1
    assert result.stderr.count("SG001 read-after-write race") == 1


def test_a_forked_child_of_a_rank_is_a_helper(tmp_path: Path) -> None:
    """It writes nothing, and the rank's own report comes once."""
    environ = clean_environment(**WATCHED)

    result = run(*TWO_STREAMS, "fork", cwd=tmp_path, environ=environ)

    assert result.stdout == "child\nresult 2.0\n"
    assert result.stderr.count("SUMMARY streamguard") == 1
    (directory,) = tmp_path.glob("streamguard-*")
    assert len(list(directory.glob("rank-*.jsonl"))) == 1


def test_stacks_can_be_switched_off(tmp_path: Path) -> None:
    """Findings stay; lines go."""
    result = streamguard("run", "--vgpu", "1", "--stacks", "off", "--", *TWO_STREAMS, cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert "two_streams.py:" not in result.stderr
    assert "no Python line" in result.stderr
