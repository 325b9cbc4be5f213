"""Blocks of the caching allocator: freed, handed out again, record_stream."""

from pathlib import Path

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run


def reuse_program(*, before_free: str = "") -> str:
    """Read a block on a side stream, free it, and let the default stream have its bytes again."""
    return f"""
        side = torch.cuda.Stream()
        x = torch.zeros(1024, device="cuda")
        address = x.data_ptr()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total = x.sum()
        {before_free}
        del x
        for _ in range(50):
            y = None
            y = torch.empty(1024, device="cuda")
            if y.data_ptr() == address:
                break
        assert y.data_ptr() == address
        y.fill_(7)
    """


def test_block_reused_while_another_stream_reads_it_is_reported(tmp_path: Path) -> None:
    """A block freed without record_stream may be handed out while its last reader still runs."""
    outcome = run(tmp_path, reuse_program())

    finding = assert_only_finding(
        outcome,
        code="SG004",
        kind="WAR",
        first=Side("aten::sum", "read", "side", "total = x.sum()"),
        second=Side("aten::fill_", "write", "default", "y.fill_(7)"),
        size=4096,
    )
    assert finding["domain"] == "reuse"
    assert finding["first"]["allocation"] != finding["second"]["allocation"]


def test_later_uses_of_a_block_reused_too_early_are_not_told_again(tmp_path: Path) -> None:
    """All accesses to the new block race with the old reader; the first of them says it."""
    program = (
        reuse_program()
        + """
        y.add_(1)
        total = y.sum()
        y.mul_(2)
    """
    )
    outcome = run(tmp_path, program)

    assert_only_finding(
        outcome,
        code="SG004",
        kind="WAR",
        first=Side("aten::sum", "read", "side", "total = x.sum()"),
        second=Side("aten::fill_", "write", "default", "y.fill_(7)"),
        size=4096,
    )


def test_block_that_the_allocator_waited_for_is_clean(tmp_path: Path) -> None:
    """With record_stream the allocator hands the block out only when its reader is done."""
    assert_clean(run(tmp_path, reuse_program(before_free="x.record_stream(side)")))


def test_wait_before_the_free_orders_the_reuse(tmp_path: Path) -> None:
    """The owner's stream waits for the reader before the block goes back: reuse is ordered."""
    outcome = run(
        tmp_path, reuse_program(before_free="torch.cuda.current_stream().wait_stream(side)")
    )

    assert_clean(outcome)


def test_reuse_on_the_same_stream_is_clean(tmp_path: Path) -> None:
    """Stream order alone makes a block's next life safe on the stream of its last."""
    outcome = run(
        tmp_path,
        """
        for _ in range(10):
            x = torch.zeros(1024, device="cuda")
            x.add_(1)
            del x
        """,
    )

    assert_clean(outcome, ops_at_least=20)


def test_segment_returned_to_the_driver_starts_afresh(tmp_path: Path) -> None:
    """cudaFree waits for the device, so bytes that come back from the driver have no past."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        x = torch.zeros(8 << 20, device="cuda")
        address = x.data_ptr()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total = x.sum()
        del x
        torch.cuda.memory.empty_cache()
        y = torch.empty(8 << 20, device="cuda")
        y.fill_(7)
        """,
    )

    assert_clean(outcome, ops_at_least=3)


def test_temporary_owned_by_the_call_alone_is_no_use_after_free(tmp_path: Path) -> None:
    """A tensor whose last reference the kernel drops is still alive for the kernel's own access.

    In inference mode nothing stands between the interpreter of scripts, which hands its only
    reference over, and the observed kernel.
    """
    outcome = run(
        tmp_path,
        """
        torch._C._jit_set_texpr_fuser_enabled(False)
        @torch.jit.script
        def chain(x):
            y = torch.cat([x + 1, x * 2])
            return (y * 2).relu().sum()
        x = torch.zeros(64, device="cuda")
        with torch.inference_mode():
            for _ in range(4):
                y = chain(x)
        """,
    )

    assert_clean(outcome, ops_at_least=20)
