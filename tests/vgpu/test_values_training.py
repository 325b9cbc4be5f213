"""Training on the virtual GPU is bit-equal to training on the CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.vgpu.values_program import SCHEDULES, result_of

OPTIMIZERS = ("fused", "foreach", "single")
PRECISIONS = ("float32", "autocast", "bfloat16")


@cache
def outcomes(schedule: str) -> dict[str, Any]:
    """Train every combination on both devices, in one process."""
    found: dict[str, Any] = result_of(
        f"""
        from tests.vgpu.values_training import perceptron, transformer
        outcome = {{}}
        for optimizer in {OPTIMIZERS}:
            outcome[optimizer] = [perceptron(optimizer, device) for device in ("cpu", "cuda")]
        for precision in {PRECISIONS}:
            for optimizer in ("fused", "foreach"):
                outcome[f"{{precision}} {{optimizer}}"] = [
                    transformer(precision, optimizer, device) for device in ("cpu", "cuda")
                ]
        outcome["not computed"] = dict(values.coverage().not_computed)
        print(json.dumps(outcome))
        """,
        schedule=schedule,
    )
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_perceptron_trains_as_on_the_cpu(optimizer: str, schedule: str) -> None:
    """Losses and parameters after 5 clipped AdamW steps are the same numbers."""
    on_cpu, on_device = outcomes(schedule)[optimizer]

    assert on_cpu["losses"][0] != on_cpu["losses"][-1]
    assert on_cpu == on_device


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("optimizer", ["fused", "foreach"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_transformer_trains_as_on_the_cpu(precision: str, optimizer: str, schedule: str) -> None:
    """Losses and parameters after 4 steps are the same numbers."""
    on_cpu, on_device = outcomes(schedule)[f"{precision} {optimizer}"]

    assert on_cpu["losses"][0] != on_cpu["losses"][-1]
    assert on_cpu == on_device


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training_leaves_no_op_without_values(schedule: str) -> None:
    """Every op that these trainings issue is computed."""
    assert outcomes(schedule)["not computed"] == {}
