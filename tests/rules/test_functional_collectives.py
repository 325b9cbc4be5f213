"""Functional collectives, and DTensors, which redistribute by them."""

from pathlib import Path

import pytest

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run_ranks

FUNCTIONAL = """
    import torch.distributed._functional_collectives as funcol
    x = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    y = {call}
    total = {read}
    funcol.wait_tensor(y)
"""
# A result is waited for when an op uses it; its inner tensor is the way around that.
CALLS = {
    'funcol.all_reduce(x, "sum", dist.group.WORLD)': ("c10d::allreduce_", 4096),
    "funcol.all_gather_tensor(x, 0, dist.group.WORLD)": (
        "c10d::allgather_into_tensor_coalesced_",
        8192,
    ),
    'funcol.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD)': (
        "c10d::reduce_scatter_tensor_coalesced_",
        2048,
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_result_read_around_its_wait_is_found(tmp_path: Path, call: str) -> None:
    """The collective runs on the group's stream, and nothing has waited for it yet."""
    op, size = CALLS[call]
    for outcome in run_ranks(tmp_path, FUNCTIONAL.format(call=call, read="y.elem.sum()")):
        assert_only_finding(
            outcome,
            code="SG006",
            kind="RAW",
            first=Side(op, "write", "nccl", f"y = {call}"),
            second=Side("aten::sum", "read", "default", "total = y.elem.sum()"),
            size=size,
        )


def test_results_read_by_an_op_are_clean(tmp_path: Path) -> None:
    """The twins differ in what is read: the op makes its stream wait first."""
    program = "".join(FUNCTIONAL.format(call=call, read="y.sum()") for call in CALLS)
    for outcome in run_ranks(tmp_path, program):
        assert_clean(outcome, ops_at_least=9)
        assert outcome.coverage["collectives"] == 3


DISTRIBUTED = """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    side = torch.cuda.Stream()
    mesh = init_device_mesh("cuda", (2,))
    whole = torch.ones(1024, device="cuda")
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        sharded.to_local().mul_(2)
    {order}
    {read}
    torch.cuda.synchronize()
"""
READS = {
    "result = sharded + 1": "aten::add",
    "result = sharded.redistribute(mesh, [Replicate()])": "c10d::allgather_into_tensor_coalesced_",
}


@pytest.mark.parametrize("read", READS)
def test_a_shard_written_elsewhere_is_found(tmp_path: Path, read: str) -> None:
    """A DTensor has no bytes of its own: its ops and collectives touch the local shard."""
    for outcome in run_ranks(tmp_path, DISTRIBUTED.format(order="", read=read)):
        found = [
            (f["code"], f["first"]["op"], f["second"]["op"], outcome.line_of(f["second"]))
            for f in outcome.findings
        ]
        assert found == [("SG001", "aten::mul_", READS[read], read)]
        overlap = outcome.findings[0]["overlap"]
        assert overlap["end"] - overlap["begin"] == 2048


def test_a_shard_written_behind_a_wait_is_clean(tmp_path: Path) -> None:
    """The twins differ in the wait."""
    order = "torch.cuda.current_stream().wait_stream(side)"
    program = DISTRIBUTED.format(order=order, read="; ".join(READS))
    for outcome in run_ranks(tmp_path, program):
        assert_clean(outcome, ops_at_least=4)
