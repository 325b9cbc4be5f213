"""Tensors made of parts: sparse and nested ones are accessed where their parts lie."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance.watched import PRELOADED
from tests.rules.expect import Side, assert_clean, assert_only_finding, pairs
from tests.rules.programs import run

# The two elements of each sparse tensor are `values`, 8 bytes; its positions are int64.
TENSORS = """
    import warnings
    warnings.simplefilter("ignore")
    side = torch.cuda.Stream()
    positions = torch.tensor([[0, 1], [1, 0]], device="cuda")
    values = torch.ones(2, device="cuda")
    coo = torch.sparse_coo_tensor(positions, values, (4, 4), is_coalesced=True)
    rows = torch.tensor([0, 1, 2, 2, 2], device="cuda")
    columns = torch.tensor([1, 0], device="cuda")
    csr = torch.sparse_csr_tensor(rows, columns, values, (4, 4), check_invariants=False)
    dense = torch.ones(4, 4, device="cuda")
    components = [torch.ones(2, 3), torch.ones(4, 3)]
    nested = torch.nested.nested_tensor(components, device="cuda")
    jagged = torch.nested.nested_tensor(components, layout=torch.jagged, device="cuda")
    levels = torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8)
    torch.cuda.synchronize()
"""
WRITTEN_AND_READ = """
    with torch.cuda.stream(side):
        {write}
    {order}
    result = {read}
    torch.cuda.synchronize()
"""
ORDER = "torch.cuda.current_stream().wait_stream(side)"

# What is written on the side stream, what reads it, the op that reads, bytes of the first run that
# both touch.
READS = [
    ("values.fill_(2)", "coo.to_dense()", "aten::_to_dense", 8),
    ("positions.fill_(0)", "coo.to_dense().sum()", "aten::_to_dense", 32),
    ("dense.fill_(2)", "dense + coo", "aten::add", 64),
    ("values.fill_(2)", "coo.clone()", "aten::clone", 8),
    ("values.fill_(2)", "coo.cpu()", "aten::copy_", 8),
    ("rows.fill_(0)", "csr @ dense", "aten::mm", 40),
    ("columns.fill_(0)", "csr.to_dense()", "aten::_to_dense", 16),
    ("dense.fill_(2)", "(csr @ dense)[0]", "aten::mm", 64),
    ("nested.mul_(2)", "nested.to_padded_tensor(0.0)", "aten::to_padded_tensor", 72),
    ("nested.mul_(2)", "nested.transpose(1, 2) + 1", "aten::add", 24),
    ("nested.mul_(2)", "nested[1] + 1", "aten::add", 48),
    ("jagged.values().mul_(2)", "jagged + 1", "aten::add", 72),
    ("levels.relu_()", "levels.dequantize()", "aten::dequantize", 16),
]


def reads_program(order: str) -> str:
    """All pairs of a write and a read, one after the other."""
    program = TENSORS
    for write, read, _, _ in READS:
        program += WRITTEN_AND_READ.format(write=write, order=order, read=read)
    return program


def test_a_part_read_while_it_is_written_is_found(tmp_path: Path) -> None:
    """The kernel of the whole tensor reads the part; the line is where it was called."""
    outcome = run(tmp_path, reads_program(""), **PRELOADED)

    writing = [re.findall(r"\w+_(?=\()", write)[-1] for write, *_ in READS]
    assert pairs(outcome) == [
        ("SG001", f"aten::{name}", op, f"result = {read}", size)
        for name, (_, read, op, size) in zip(writing, READS, strict=True)
    ]


def test_the_same_reads_behind_a_wait_are_clean(tmp_path: Path) -> None:
    """Each differs from the racy one in the wait alone; no launch lies outside of an op."""
    outcome = run(tmp_path, reads_program(ORDER), **PRELOADED)

    assert_clean(outcome, ops_at_least=2 * len(READS))
    assert outcome.coverage["opaque"] == {}


CHANGED = """
    with torch.cuda.stream(side):
        kept = values.sum()
    {order}
    {change}
"""


def test_elements_changed_in_place_are_written(tmp_path: Path) -> None:
    """The sparse tensor's elements are the same bytes before and after; its positions are read."""
    outcome = run(tmp_path, TENSORS + CHANGED.format(order="", change="csr.mul_(2)"))

    assert_only_finding(
        outcome,
        code="SG002",
        kind="WAR",
        first=Side("aten::sum", "read", "side", "kept = values.sum()"),
        second=Side("aten::mul_", "write", "default", "csr.mul_(2)"),
        size=8,
    )


def test_elements_changed_behind_a_wait_are_clean(tmp_path: Path) -> None:
    """The twin differs in the wait."""
    assert_clean(run(tmp_path, TENSORS + CHANGED.format(order=ORDER, change="csr.mul_(2)")))


def test_parts_that_are_replaced_are_only_read(tmp_path: Path) -> None:
    """These put new parts in the place of the old ones, whose bytes stay as they are."""
    program = TENSORS + CHANGED.format(order="", change="coo.mul_(2); coo.add_(coo.clone())")

    assert_clean(run(tmp_path, program))
