"""A small soak: every training equals the CPU under a few schedules of each policy."""

from __future__ import annotations

import pytest

from tools.soak import TRAININGS, soak, tokens

RUNS = 2


@pytest.mark.long
@pytest.mark.parametrize("training", TRAININGS)
def test_training_equals_the_cpu_under_every_schedule(training: str) -> None:
    """Losses and parameters of both ranks are the CPU's, bit by bit, under lazy, random and PCT."""
    outcome = soak(training, tokens(RUNS, first_seed=1), quiet=True)

    assert outcome == {
        "runs": 3 * RUNS,
        "wrong": [],
        "largest": 0.0,
        "grown_mib": 0.0,
        "rescues": 0,
    }
