"""Asynchronous collectives whose work nobody waits for: who may use their buffers, and when."""

from pathlib import Path

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run_ranks


def dropped_work_program(after_start: str) -> str:
    """Drop the work of an all_reduce, call the group until the block is free, and reuse it."""
    return f"""
        x, alive, small = (torch.ones(n, device="cuda") for n in (1 << 18, 1 << 18, 8))
        address = x.data_ptr()
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        earlier_work = dist.all_reduce(alive, async_op=True)
        work = dist.all_reduce(x, async_op=True)
        {after_start}
        del work, x
        y = torch.empty(1 << 18, device="cuda")
        while y.data_ptr() != address:
            y = None
            # The group's watchdog sees the end; its next call then drops what it kept.
            dist.all_reduce(small, async_op=True)
            y = torch.empty(1 << 18, device="cuda")
        y.fill_(7)
    """


def test_block_that_the_group_kept_until_the_end_is_clean(tmp_path: Path) -> None:
    """Nobody waited, so the group freed the block because its watchdog saw the collective end."""
    [outcome] = run_ranks(tmp_path, dropped_work_program(""), ranks=1)

    assert_clean(outcome, ops_at_least=5)


def test_block_freed_after_another_stream_waited_is_reported(tmp_path: Path) -> None:
    """`Work.wait` lets the block go at once: only the waiting stream knows the collective's end."""
    program = dropped_work_program("with torch.cuda.stream(side): work.wait()")
    [outcome] = run_ranks(tmp_path, program, ranks=1)

    finding = assert_only_finding(
        outcome,
        code="SG004",
        kind="WAW",
        first=Side("c10d::allreduce_", "write", "nccl", "work = dist.all_reduce(x, async_op=True)"),
        second=Side("aten::fill_", "write", "default", "y.fill_(7)"),
        size=1 << 20,
    )
    assert finding["domain"] == "reuse"


def test_buffer_that_is_still_alive_needs_a_wait(tmp_path: Path) -> None:
    """That the group freed the buffer of a later collective says nothing to readers of this one."""
    program = dropped_work_program("") + "\n        total = alive.sum()"
    [outcome] = run_ranks(tmp_path, program, ranks=1)

    assert_only_finding(
        outcome,
        code="SG006",
        kind="RAW",
        first=Side(
            "c10d::allreduce_",
            "write",
            "nccl",
            "earlier_work = dist.all_reduce(alive, async_op=True)",
        ),
        second=Side("aten::sum", "read", "default", "total = alive.sum()"),
        size=1 << 20,
    )
