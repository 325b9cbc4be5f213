"""Enforced waits on two streams of one process: right numbers under every extreme schedule."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.enforce.running import BIN, run

CASES = "tests/enforce/cases.py"
# What each case lacks: code, second op and where it ran, in the order of the program.
SITES = [
    ("SG001", "aten::add", "default stream (device 0)"),
    ("SG002", "aten::fill_", "default stream (device 0)"),
    ("SG003", "aten::fill_", "default stream (device 0)"),
    ("SG001", "aten::add", "default stream (device 0)"),
    ("SG001", "aten::add", "default stream (device 0)"),
    ("SG001", "aten::cat", "default stream (device 0)"),
    ("SG004", "aten::mul", "default stream (device 0)"),
    ("SG004", "aten::fill_", "default stream (device 0)"),
    ("SG005", "aten::fill_", None),
    ("SG005", "aten::add", None),
    ("SG001", "aten::copy_", "default stream (device 0)"),
]


@pytest.mark.parametrize("schedule", ["extreme:0,1", "extreme:1,0"])
def test_racy_cases_give_the_right_numbers_when_waits_are_enforced(
    schedule: str, tmp_path: Path
) -> None:
    """Each case gets the one wait it lacks, is no race any more, and computes what it should."""
    done = run(tmp_path, CASES, "racy", options=("--enforce", "--schedule", schedule), devices=2)

    waits = done.of_type("wait")
    sites = [
        (w["code"], w["second"]["op"], (w["second"]["stream"] or {}).get("name")) for w in waits
    ]
    assert done.printed["wrong"] == {}
    assert sites == SITES
    assert [wait["count"] for wait in waits] == [1] * len(SITES)
    assert (done.status, done.of_type("race")) == (0, [])
    assert (done.summary["waits_inserted"], done.summary["wait_sites"]) == (11, 11)
    assert "11 waits inserted at 11 sites" in done.text


def test_racy_cases_are_wrong_without_enforced_waits(tmp_path: Path) -> None:
    """When the side stream is late, every case whose result can show it is wrong."""
    done = run(tmp_path, CASES, "racy", options=("--schedule", "extreme:0,1"), devices=2)

    assert done.status == 66
    assert len(done.of_type("race")) == len(SITES)
    assert set(done.printed["wrong"]) == set(done.printed["cases"])


@pytest.mark.parametrize("mode", [(), ("--enforce",)])
def test_repaired_cases_need_no_wait(mode: tuple[str, ...], tmp_path: Path) -> None:
    """The twin with the missing call in it is clean, and enforcing puts nothing in."""
    done = run(tmp_path, CASES, "repaired", options=(*mode, "--schedule", "extreme:0,1"), devices=2)

    assert (done.status, done.printed["wrong"]) == (0, {})
    assert (done.of_type("race"), done.of_type("wait")) == ([], [])
    assert done.summary["waits_inserted"] == 0


def test_what_the_awaited_streams_were_doing_is_reported(tmp_path: Path) -> None:
    """With the side stream late its work is still to come at every wait; with it early, never."""
    late = run(
        tmp_path / "late", CASES, "racy", devices=2,
        options=("--enforce", "--schedule", "extreme:0,1"),
    )  # fmt: skip
    early = run(
        tmp_path / "early", CASES, "racy", devices=2,
        options=("--enforce", "--schedule", "extreme:1,0"),
    )  # fmt: skip

    assert [wait["inserted"]["running"] for wait in late.of_type("wait")] == [1] * len(SITES)
    assert [wait["inserted"]["running"] for wait in early.of_type("wait")] == [0] * len(SITES)
    # The virtual GPU's event times mean nothing.
    assert {wait["inserted"]["timed"] for wait in late.of_type("wait")} == {0}


def test_a_replayed_trace_tells_of_the_same_waits(tmp_path: Path) -> None:
    """What was put in is in the trace: the pairs are no races there either."""
    trace = tmp_path / "trace"

    done = run(
        tmp_path / "out", CASES, "racy", devices=2,
        options=("--enforce", "--schedule", "extreme:0,1", "--trace", str(trace)),
    )  # fmt: skip

    replayed = subprocess.run(
        [str(BIN / "streamguard"), "replay", "--json", str(trace)], capture_output=True, text=True
    )
    records = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert [r for r in records if r["type"] == "wait"] == done.of_type("wait")
    assert [r for r in records if r["type"] == "race"] == []
    assert (replayed.returncode, len(done.of_type("wait"))) == (0, len(SITES))


def test_only_waits_of_named_streams_are_inserted(tmp_path: Path) -> None:
    """What --enforce-only leaves out stays a race, and the exit status says so."""
    options = ("--enforce", "--enforce-only", "copy", "--schedule", "extreme:0,1")

    done = run(tmp_path, CASES, "racy", options=options, devices=2)

    assert (done.status, len(done.of_type("race")), done.of_type("wait")) == (66, 11, [])
