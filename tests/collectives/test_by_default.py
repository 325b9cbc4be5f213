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
        assert "rank 1: broadcast int32 [8] root 0  at unequal_types.py:16" in result.stderr
    assert result.stderr.count("SUMMARY collectives: 1 calls in 0 steps audited") == 1


@pytest.mark.long
@pytest.mark.parametrize(("variant", "status"), [("wrong", 66), ("clean", 67)])
def test_what_ranks_could_not_compare_is_compared_after_them(
    variant: str, status: int, tmp_path: Path
) -> None:
    """Ranks that end by os._exit leave their files: the launcher finds the same there.

    67 says of the twin that its races were not checked: no rank wrote a summary.
    """
    launcher = ("torchrun", "--standalone", "--nproc_per_node=2")
    result = streamguard(
        "run", "--vgpu", "2", "--", *launcher, str(PROGRAMS / "unequal_types.py"), variant,
        "abrupt", cwd=tmp_path,
    )  # fmt: skip

    assert result.returncode == status, result.stderr[-3000:]
    assert result.stderr.count("SG310") == (1 if variant == "wrong" else 0)
