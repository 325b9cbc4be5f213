"""What torch describes of its operators is the same on the virtual GPU and on the CPU."""

from __future__ import annotations

import json

import pytest

from tests.vgpu.opinfo_sweep import DIFFERENT
from tests.vgpu.values_program import start

LEAST_EQUAL = 0.98


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_every_operator_gives_the_cpus_values(schedule: str) -> None:
    """Forward, in place and gradients; exactly the operators listed with a reason differ."""
    run = start(
        """
        from tests.vgpu import opinfo_sweep
        opinfo_sweep.main()
        """,
        schedule=schedule,
    )

    assert run.returncode == 0, run.stderr[-2000:]
    *differences, end = [json.loads(line) for line in run.stdout.splitlines() if line[0] == "{"]
    counts = end["counts"]
    print(counts)
    assert {record["op"] for record in differences} == set().union(*DIFFERENT.values())
    assert end["not computed"] == {}
    for direction in ("forward", "in place", "grad"):
        assert counts[f"{direction} checks"] > 100
    checks = sum(count for name, count in counts.items() if name.endswith("checks"))
    equal = sum(count for name, count in counts.items() if name.endswith("equal"))
    assert equal >= LEAST_EQUAL * checks, counts
