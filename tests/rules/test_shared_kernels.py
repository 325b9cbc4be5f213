"""Operators that are written once for all devices and launch by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.expect import assert_clean, pairs
from tests.rules.programs import run

PROGRAM = """
    side = torch.cuda.Stream()
    x = torch.ones(256, device="cuda")
    power = torch.ones(256, dtype=torch.int64, device="cuda")
    most = torch.empty((), device="cuda"), torch.empty((), dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(3)
    {order}
    {op}
"""
OPS = {"ldexp": "result = torch.ldexp(x, power)", "mode": "torch.mode(x, out=most)"}


@pytest.mark.parametrize("name", OPS)
def test_the_op_reads_its_arguments(tmp_path: Path, name: str) -> None:
    """It has no kernel registered for CUDA, and is observed all the same."""
    outcome = run(tmp_path, PROGRAM.format(op=OPS[name], order=""))

    assert pairs(outcome) == [("SG001", "aten::fill_", f"aten::{name}", OPS[name], 1024)]


@pytest.mark.parametrize("name", OPS)
def test_behind_a_wait_it_is_clean(tmp_path: Path, name: str) -> None:
    """The twin differs in the wait."""
    order = "torch.cuda.current_stream().wait_stream(side)"
    assert_clean(run(tmp_path, PROGRAM.format(op=OPS[name], order=order)), ops_at_least=4)
