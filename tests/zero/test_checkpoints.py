"""Optimizer state in three forms, loaded by the same job, by other world sizes, by torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.verify.jobs import Jobs

PROGRAMS = "tests.zero.training_programs"


@pytest.mark.parametrize("others", [1, 3])
def test_training_goes_on_from_each_form_of_the_state(
    jobs: Jobs, others: int, tmp_path: Path
) -> None:
    """Two ranks save; two ranks go on bit by bit; one or three ranks have the same whole state."""
    argument = {"directory": str(tmp_path)}

    for rank in jobs.run(f"{PROGRAMS}:save", argument, ranks=2, schedule="lazy"):
        assert rank["shards"] == rank["went on"]
        assert rank["whole"] == rank["went on"]
        assert rank["dcp"] == rank["went on"]
    for rank in jobs.run(f"{PROGRAMS}:load_elsewhere", argument, ranks=others, schedule="lazy"):
        assert all(rank["whole"])
        assert all(rank["dcp"])
        assert rank["shards"] == "refused"
        assert rank["plain"] == 6
