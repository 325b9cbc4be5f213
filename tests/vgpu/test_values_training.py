"""Training on the virtual GPU is bit-equal to training on the CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.vgpu.values_program import SCHEDULES, result_of

OPTIMIZERS = ("fused", "foreach", "single")
PRECISIONS = ("float32", "autocast", "bfloat16")
RECURRENT = ("LSTM", "GRU")


@cache
def outcomes(schedule: str) -> dict[str, Any]:
    """Train every combination on both devices, in one process."""
    found: dict[str, Any] = result_of(
        f"""
        from tests.vgpu.values_training import (
            compiled, convolutional, perceptron, recurrent, scaled, transformer
        )
        DEVICES = ("cpu", "cuda")
        outcome = {{}}
        for optimizer in {OPTIMIZERS}:
            outcome[optimizer] = [perceptron(optimizer, device) for device in DEVICES]
        for precision in {PRECISIONS}:
            for optimizer in ("fused", "foreach"):
                outcome[f"{{precision}} {{optimizer}}"] = [
                    transformer(precision, optimizer, device) for device in ("cpu", "cuda")
                ]
        outcome["convolutional"] = [convolutional(device) for device in DEVICES]
        for kind in {RECURRENT}:
            outcome[kind] = [recurrent(kind, device) for device in DEVICES]
        outcome["scaled"] = [scaled(device) for device in DEVICES]
        outcome["compiled"] = [compiled("aot_eager", device) for device in DEVICES]
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
def test_convolutions_with_batch_norm_train_as_on_the_cpu(schedule: str) -> None:
    """Losses, parameters and running statistics after 4 steps are the same numbers."""
    on_cpu, on_device = outcomes(schedule)["convolutional"]

    assert on_cpu["losses"][0] != on_cpu["losses"][-2]
    assert on_cpu == on_device


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers_train_as_on_the_cpu(kind: str, schedule: str) -> None:
    """Within 1e-6: the CPU's layers sum the two directions' gradients in another order."""
    on_cpu, on_device = outcomes(schedule)[kind]

    assert on_cpu["losses"][0] != on_cpu["losses"][-1]
    assert on_device["losses"] == pytest.approx(on_cpu["losses"], abs=1e-6)
    assert _flat(on_device["parameters"]) == pytest.approx(_flat(on_cpu["parameters"]), abs=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gradient_scaling_trains_as_on_the_cpu(schedule: str) -> None:
    """Autocast float16: the scale backs off from what overflows, and all numbers are the same."""
    on_cpu, on_device = outcomes(schedule)["scaled"]

    assert on_cpu["scales"][0] > on_cpu["scales"][-1] > 1.0
    assert on_cpu["losses"][0] != on_cpu["losses"][-1]
    assert on_cpu == on_device


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_compiled_model_trains_as_on_the_cpu(schedule: str) -> None:
    """torch.compile with aot_eager runs the ops that have values."""
    on_cpu, on_device = outcomes(schedule)["compiled"]

    assert on_cpu["losses"][0] != on_cpu["losses"][-1]
    assert on_cpu == on_device


def _flat(nested: Any) -> list[float]:
    if isinstance(nested, list):
        return [number for part in nested for number in _flat(part)]
    return [nested]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training_leaves_no_op_without_values(schedule: str) -> None:
    """Every op that these trainings issue is computed."""
    assert outcomes(schedule)["not computed"] == {}
