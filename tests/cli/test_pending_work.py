"""A program may end while its kernels have not run yet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.command import streamguard, summary

ENDS_BUSY = (sys.executable, str(Path(__file__).with_name("programs") / "ends_busy.py"))


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_the_finding_of_a_last_op_is_kept(tmp_path: Path, schedule: str) -> None:
    """Lazily the racing ops have not even run when the interpreter ends."""
    options = ("--vgpu", "1", "--schedule", schedule)
    result = streamguard("run", *options, "--", *ENDS_BUSY, cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert result.stderr.count("SG001 read-after-write race") == 1
    assert summary(result.stderr).endswith("status=races")


def test_the_ordered_twin_is_clean(tmp_path: Path) -> None:
    """It differs in one wait, and leaves as much work."""
    options = ("--vgpu", "1", "--schedule", "lazy")
    result = streamguard("run", *options, "--", *ENDS_BUSY, "ordered", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert summary(result.stderr).endswith("status=clean")
