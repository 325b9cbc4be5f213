"""Every hand case gives the CPU's results and gradients, whatever the schedule."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.vgpu import values_cases_modules, values_cases_ops
from tests.vgpu.values_cases import CASES
from tests.vgpu.values_program import SCHEDULES, result_of

assert values_cases_modules and values_cases_ops  # importing them registers the cases


@cache
def outcomes(schedule: str) -> dict[str, Any]:
    """Run all cases in one process."""
    found: dict[str, Any] = result_of(
        """
        from tests.vgpu import values_cases, values_cases_modules, values_cases_ops
        values_cases.main()
        """,
        schedule=schedule,
    )
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_case_gives_the_cpus_values(name: str, schedule: str) -> None:
    """Results, gradients, shapes and dtypes are the CPU's within the case's tolerance."""
    outcome = outcomes(schedule)[name]

    assert isinstance(outcome, float), outcome
    assert outcome <= CASES[name].tolerance
