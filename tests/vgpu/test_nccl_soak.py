"""Many random collectives at once give the right values under every schedule."""

from __future__ import annotations

import pytest
from conftest import RunVgpu


def _soak(run_vgpu: RunVgpu, schedule: str, seed: int, ranks: int, steps: int) -> None:
    environment = {"SOAK_SEED": str(seed), "SOAK_STEPS": str(steps)}
    for finished in run_vgpu(
        "import nccl_soak_program", schedule=schedule, ranks=ranks, environment=environment
    ):
        assert finished.lines == ["right"], f"schedule {schedule}, seed {seed}"


@pytest.mark.parametrize("schedule", ["eager", "lazy", "extreme:1,2", "random:7"])
def test_random_collectives_are_right(run_vgpu: RunVgpu, schedule: str) -> None:
    """Three groups, three streams, up to six collectives under way, two ranks."""
    _soak(run_vgpu, schedule, seed=1, ranks=2, steps=100)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
def test_random_collectives_are_right_for_many_seeds(run_vgpu: RunVgpu, seed: int) -> None:
    """Fifty programs, schedules in turn, two and three ranks."""
    schedule = ("lazy", f"random:{seed}", f"extreme:{seed % 4},{(seed + 1) % 4}")[seed % 3]
    _soak(run_vgpu, schedule, seed=seed, ranks=2 + seed % 2, steps=300)
