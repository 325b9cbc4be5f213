"""The racy litmus cases in torch: wrong bytes, the repair, and the detector say the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.torch_litmus_cases import (
    NOT_EXPRESSIBLE,
    PARTS,
    expected_pairs,
)

ROOT = Path(__file__).parents[2]
ON_ONE_STREAM = {"dgl-3971", "ggml-8897", "vllm-25279"}
"""The programs that race with the host and use no stream but the default one."""


def outcomes(part: str, how: str) -> list[dict[str, Any]]:
    """Run the programs of one part; a record for each half."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.torch_litmus_runs", part, how],
        cwd=ROOT, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(halves: list[dict[str, Any]]) -> None:
    """Compare what the programs gave and what the detector reported with the case files."""
    racy = {half["id"]: half for half in halves if half["half"] == "racy"}
    repaired = {half["id"]: half for half in halves if half["half"] == "repaired"}
    expected = {id_: expected_pairs()[id_] for id_ in racy}

    assert [id_ for id_, half in racy.items() if not half["wrong"]] == []
    assert {id_: half["wrong"] for id_, half in repaired.items()} == {id_: {} for id_ in racy}
    assert {id_: half["pairs"] for id_, half in racy.items()} == expected
    assert {id_: half["pairs"] for id_, half in repaired.items()} == {id_: [] for id_ in racy}


@pytest.mark.parametrize("part", PARTS)
def test_some_schedule_makes_the_racy_half_wrong_and_the_detector_reports_its_pair(
    part: str,
) -> None:
    """Until the first schedule that shows the race; the repaired half is right under the same."""
    check(outcomes(part, "first"))


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
def test_no_schedule_makes_the_repaired_half_wrong(part: str) -> None:
    """Under eager, lazy and, for n streams, all n(n-1) extremes."""
    halves = outcomes(part, "all")

    check(halves)
    on_one_stream = {half["id"] for half in halves if half["streams"] == 1}
    assert on_one_stream == ON_ONE_STREAM.intersection(half["id"] for half in halves)
    for half in halves:
        assert half["ran"] == 2 + half["streams"] * (half["streams"] - 1), half


def test_every_racy_case_has_a_program_or_a_reason() -> None:
    """No case file is left out by mistake; the programs' files name each case once."""
    named = [
        line.split('"')[1]
        for part in PARTS
        for line in Path(__file__).with_name(f"torch_litmus_{part}.py").read_text().splitlines()
        if line.startswith("@case(")
    ]

    assert sorted([*named, *NOT_EXPRESSIBLE]) == sorted(expected_pairs())
