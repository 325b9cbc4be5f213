"""The engine calls a program racy exactly when a schedule of the virtual GPU changes its bytes.

Two sides that share no code: vector clocks over what was issued, and execution.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.seeds import first_seed

ROOT = Path(__file__).parents[2]
MODULE = "tests.vgpu.detector_against_runtime"
LONG_PART = 1250


def compare(count: int, control: str = "") -> dict[str, Any]:
    """Compare both sides on programs from a new starting point, which is printed."""
    seed = first_seed()
    print(f"replay one of them: .venv/bin/python -m {MODULE} {seed} 1  # up to {seed + count - 1}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    done = subprocess.run(
        [sys.executable, "-m", MODULE, str(seed), str(count), *filter(None, [control])],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    compared: dict[str, Any] = json.loads(done.stdout)
    return compared


def check(count: int) -> None:
    """No disagreement, on programs of which a fair part is racy and a fair part is not."""
    compared = compare(count)
    disagreements = compared["disagreements"]

    assert disagreements == [], "\n".join(["", *disagreements[0]["program"]])
    assert count * 0.25 < compared["racy"] < count * 0.75
    assert compared["schedules"] > count * 4


def test_engine_and_schedules_agree_on_random_programs() -> None:
    """200 programs: a race if and only if some extreme schedule changes what an op sees."""
    check(200)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_engine_and_schedules_agree_on_many_random_programs(part: int) -> None:
    """The same on 5,000 programs, in four parts."""
    check(LONG_PART)


@pytest.mark.parametrize("blind", ["engine", "runtime"])
def test_a_side_that_misses_the_waits_disagrees(blind: str) -> None:
    """Control: without the order between streams on one side the comparison notices."""
    disagreements = compare(200, blind)["disagreements"]

    assert disagreements
    claimed_racy = {bool(found["races"]) for found in disagreements}
    assert claimed_racy == {blind == "engine"}
