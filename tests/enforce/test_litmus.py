"""Every racy litmus case that torch can express, with its missing waits put in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.torch_litmus_cases import PARTS

ROOT = Path(__file__).parents[2]
NO_WAIT_REPAIRS = {"fi-4553": "a graph is replayed after a tensor that it reads was freed"}
"""Racy cases that stay findings when waits are enforced, and why."""


def outcomes(part: str, how: str) -> list[dict[str, Any]]:
    """Run the programs of one part with enforced waits; a record for each half."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.enforce.litmus_runs", part, how],
        cwd=ROOT, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(halves: list[dict[str, Any]]) -> None:
    """The racy half is right and had waits put in; the repaired one is right and had none."""
    racy = [h for h in halves if h["half"] == "racy" and h["id"] not in NO_WAIT_REPAIRS]
    beyond_repair = [h for h in halves if h["half"] == "racy" and h["id"] in NO_WAIT_REPAIRS]
    repaired = [half for half in halves if half["half"] == "repaired"]

    assert {half["id"]: half["wrong"] for half in racy if half["wrong"]} == {}
    # Where a query decides, an early stream leaves nothing to wait for.
    assert [half["id"] for half in racy if not half["inserting"]] == []
    assert [h["id"] for h in beyond_repair if h["inserting"] or h["racing"] < h["ran"]] == []
    assert [half["id"] for half in racy if half["racing"]] == []
    assert {half["id"]: half["wrong"] for half in repaired if half["wrong"]} == {}
    assert {h["id"]: h["sites"] for h in repaired if h["inserting"] or h["racing"]} == {}


@pytest.mark.parametrize("part", PARTS)
def test_racy_cases_are_right_with_enforced_waits_and_repaired_ones_need_none(part: str) -> None:
    """Under the two extremes of the first two streams."""
    check(outcomes(part, "extremes"))


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_racy_cases_are_right_under_every_schedule_with_enforced_waits(part: str) -> None:
    """Under eager, lazy and every extreme."""
    check(outcomes(part, "all"))
