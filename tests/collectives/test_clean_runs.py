"""Real training under the comparison: not one false report in 200 steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectives.launch import launch

STEPS = "200"
TRAIN_ZERO = "../../../examples/train_zero2.py"
RUNS = {
    "ddp": ("torch_training.py", "ddp", STEPS),
    "fsdp2": ("torch_training.py", "fsdp2", STEPS),
    "zero-1": (TRAIN_ZERO, "--stage", "1", "--steps", STEPS),
    "zero-2": (TRAIN_ZERO, "--stage", "2", "--steps", STEPS),
    "zero-3": (TRAIN_ZERO, "--stage", "3", "--steps", STEPS),
    "pipeline": ("pipeline_stages.py", "bf16", STEPS),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_200_steps_are_silent(name: str, tmp_path: Path) -> None:
    """Ranks that call the same are never reported, and the run ends as it would."""
    outcome = launch(
        *RUNS[name], ranks=2, output=tmp_path, STREAMGUARD_COLLECTIVES="async",
        STREAMGUARD_HANG_AFTER="300",
    )  # fmt: skip

    assert outcome.statuses == [0, 0], outcome.text[-3000:]
    assert (outcome.plans, outcome.reports) == ([], [])
    assert "streamguard:" not in outcome.text
