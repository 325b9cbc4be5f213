"""What `streamguard run` compares and prints without being asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import clean_environment, streamguard
from tests.collectives.launch import PROGRAMS


@pytest.mark.parametrize(("variant", "status"), [("wrong", 66), ("clean", 0)])
def test_ranks_are_compared_behind_the_run(variant: str, status: int, tmp_path: Path) -> None:
    """A type that differs is named with its line and decides the exit status; the twin is silent.

    STREAMGUARD_AUDIT=1 adds the audit of rank 0, once for the job.
    """
    program = str(PROGRAMS / "unequal_types.py")
    launcher = ("torchrun", "--standalone", "--nproc_per_node=2")
    result = streamguard(
        "run", "--vgpu", "2", "--", *launcher, program, variant, cwd=tmp_path,
        environ=clean_environment(STREAMGUARD_AUDIT="1"),
    )  # fmt: skip

    assert result.returncode == status, result.stderr[-3000:]
    assert result.stderr.count("SG310") == (1 if variant == "wrong" else 0)
    if variant == "wrong":
        assert "rank 1: broadcast int32 [8] root 0  at unequal_types.py:15" in result.stderr
    assert result.stderr.count("SUMMARY collectives: 1 calls in 0 steps audited") == 1
