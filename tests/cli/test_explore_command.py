"""`streamguard run --explore` compares named results between schedules and gives the verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cli.command import streamguard

PROGRAM = str(Path(__file__).parent / "programs" / "named_results.py")


def explore(tmp_path: Path, schedules: str, *options: str) -> CompletedProcess[str]:
    own = ("run", "--vgpu", "1", "--explore", "--output", str(tmp_path), "--json")
    command = ("--", sys.executable, PROGRAM, *options)
    return streamguard(*own, "--schedules", schedules, *command, cwd=tmp_path)


def test_a_race_is_a_difference_with_a_token_that_replays_it(tmp_path: Path) -> None:
    """66, the first element that differs, and a command that shows it again."""
    done = explore(tmp_path, "extreme:0,1 extreme:1,0", "racy")

    verdict = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 66
    assert verdict == {
        "type": "exploration",
        "verdict": "difference",
        "results": 1,
        "ranks": 1,
        "schedules": ["eager", "extreme:0,1", "extreme:1,0"],
        "rescued": [],
        "token": "extreme:1,0",
        "statuses": [0, 0],
        "difference": {
            "rank": 0,
            "name": "doubled",
            "occurrence": 0,
            "index": [0],
            "expected": "2",
            "found": "0",
            "elements": 3,
        },
        "replay": "streamguard run --vgpu 1 --explore --schedules extreme:1,0 -- "
        f"{sys.executable} {PROGRAM} racy",
    }
    assert "rank 0: doubled[0] is 0, and 2 under eager, 3 elements differ" in done.stderr


def test_a_repaired_program_is_the_same_under_every_schedule(tmp_path: Path) -> None:
    """Status 0 and the count of schedules, extremes made from the streams that were used."""
    done = explore(tmp_path, "extremes")

    verdict = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, verdict["verdict"]) == (0, "equal")
    assert verdict["schedules"] == ["eager", "extreme:0,1", "extreme:1,0"]


def test_no_named_result_is_an_error(tmp_path: Path) -> None:
    """A program that names nothing was not checked: 67, after one run."""
    done = explore(tmp_path, "lazy", "silent")

    assert done.returncode == 67
    assert json.loads(done.stdout.splitlines()[-1])["verdict"] == "checked-nothing"


def test_a_schedule_that_ends_with_another_status_is_a_difference(tmp_path: Path) -> None:
    """A program that fails under one schedule only depends on it; its output is shown."""
    done = explore(tmp_path, "lazy", "fails")

    verdict = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, verdict["statuses"]) == (66, [0, 3])
    assert "    wrong order\n" in done.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--explore",), "--explore needs the virtual GPU"),
        (("--vgpu", "1", "--schedules", "lazy"), "--schedules lists what --explore runs"),
        (("--vgpu", "1", "--explore", "--schedules", "lay"), "'lay' is no schedule"),
        (("--vgpu", "1", "--explore", "--schedules", ""), "no schedule to compare: none is given"),
        (("--vgpu", "1", "--explore", "--schedule", "lazy"), "--schedule does not go with"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    """Status 2 before anything runs."""
    done = streamguard("run", *options, "--", sys.executable, PROGRAM, cwd=tmp_path)

    assert done.returncode == 2
    assert told in done.stderr
