"""Collectives of real ProcessGroupNCCL between two ranks."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import Outcome, run_ranks


def write_after_all_reduce_program(wait: str) -> str:
    """Start an asynchronous all_reduce and write its buffer, with `wait` between."""
    return f"""
        x = torch.ones(1024, device="cuda")
        torch.cuda.synchronize()
        work = dist.all_reduce(x, async_op=True)
        {wait}
        x.mul_(2)
        work.wait()
    """


def test_write_before_the_work_is_waited_for_is_reported(tmp_path: Path) -> None:
    """An asynchronous collective still uses its buffer on the communication stream."""
    for outcome in run_ranks(tmp_path, write_after_all_reduce_program("")):
        finding = assert_only_finding(
            outcome,
            code="SG006",
            kind="WAW",
            first=Side(
                "c10d::allreduce_", "write", "nccl", "work = dist.all_reduce(x, async_op=True)"
            ),
            second=Side("aten::mul_", "write", "default", "x.mul_(2)"),
            size=4096,
        )
        assert finding["first"]["collective"] == {"async": True, "group": "default_pg"}
        assert finding["second"]["collective"] is None
        # The work's end event was recorded; only the wait is missing.
        assert finding["missing"]["event_after_first"]


def test_write_after_the_work_was_waited_for_is_clean(tmp_path: Path) -> None:
    """`Work.wait` makes the current stream wait for the collective's end."""
    for outcome in run_ranks(tmp_path, write_after_all_reduce_program("work.wait()")):
        assert_clean(outcome, ops_at_least=3)
        assert outcome.coverage["collectives"] == 1
        assert outcome.coverage["process_group"]


def test_wait_on_one_stream_does_not_protect_another(tmp_path: Path) -> None:
    """The stream that is current during `Work.wait` is ordered, and no other."""
    program = """
        side = torch.cuda.Stream()
        x = torch.ones(1024, device="cuda")
        torch.cuda.synchronize()
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        with torch.cuda.stream(side):
            x.mul_(2)
    """
    for outcome in run_ranks(tmp_path, program):
        assert_only_finding(
            outcome,
            code="SG006",
            kind="WAW",
            first=Side(
                "c10d::allreduce_", "write", "nccl", "work = dist.all_reduce(x, async_op=True)"
            ),
            second=Side("aten::mul_", "write", "side", "x.mul_(2)"),
            size=4096,
        )


def test_synchronous_collective_runs_on_the_current_stream(tmp_path: Path) -> None:
    """With async_op=False nothing has to be waited for on the stream that issued it."""
    program = """
        x = torch.ones(1024, device="cuda")
        dist.all_reduce(x)
        x.mul_(2)
    """
    for outcome in run_ranks(tmp_path, program):
        assert_clean(outcome, ops_at_least=3)


def test_synchronous_collective_is_unordered_for_other_streams(tmp_path: Path) -> None:
    """A synchronous collective is work of the current stream like any kernel."""
    program = """
        side = torch.cuda.Stream()
        x = torch.ones(1024, device="cuda")
        torch.cuda.synchronize()
        dist.all_reduce(x)
        with torch.cuda.stream(side):
            x.mul_(2)
    """
    for outcome in run_ranks(tmp_path, program):
        finding = assert_only_finding(
            outcome,
            code="SG003",
            kind="WAW",
            first=Side("c10d::allreduce_", "write", "default", "dist.all_reduce(x)"),
            second=Side("aten::mul_", "write", "side", "x.mul_(2)"),
            size=4096,
        )
        assert finding["first"]["collective"] == {"async": False, "group": "default_pg"}


def test_collective_of_a_buffer_that_another_stream_writes_is_reported(tmp_path: Path) -> None:
    """A collective waits only for the stream that was current when it was issued."""
    program = """
        side = torch.cuda.Stream()
        x = torch.ones(1024, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            x.mul_(2)
        dist.all_reduce(x, async_op=True).wait()
    """
    for outcome in run_ranks(tmp_path, program):
        assert_only_finding(
            outcome,
            code="SG003",
            kind="WAW",
            first=Side("aten::mul_", "write", "side", "x.mul_(2)"),
            second=Side(
                "c10d::allreduce_",
                "write",
                "nccl",
                "dist.all_reduce(x, async_op=True).wait()",
            ),
            size=4096,
        )


# Name, the asynchronous call, then what it reads and what it writes of a and b (8 and 16 floats).
CALLS = {
    "all_reduce": ("dist.all_reduce(a, async_op=True)", "", "a"),
    "all_gather_into_tensor": ("dist.all_gather_into_tensor(b, a, async_op=True)", "a", "b"),
    "all_gather": ("dist.all_gather(list(b.chunk(2)), a, async_op=True)", "a", "b"),
    "reduce_scatter_tensor": ("dist.reduce_scatter_tensor(a, b, async_op=True)", "b", "a"),
    "reduce_scatter": ("dist.reduce_scatter(a, list(b.chunk(2)), async_op=True)", "b", "a"),
    "all_to_all_single": ("dist.all_to_all_single(c, b, async_op=True)", "b", "c"),
    "broadcast": ("dist.broadcast(a, 0, async_op=True)", "a@0", "a@1"),
    "reduce": ("dist.reduce(a, 0, async_op=True)", "a@1", "a@0"),
    "send_recv": ("dist.isend(a, 1) if rank == 0 else dist.irecv(a, 0)", "a@0", "a@1"),
}
BYTES = {"a": 32, "b": 64, "c": 64}


@pytest.fixture(scope="module")
def touched_early(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Read and write every buffer of every call before its work is waited for."""
    program = """
        def touch_early(start):
            a, b, c = (torch.ones(n, device="cuda") for n in (8, 16, 16))
            torch.cuda.synchronize()
            work = start(a, b, c)
            for tensor in (a, b, c):
                tensor.sum()
                tensor.fill_(0)
            work.wait()
            torch.cuda.synchronize()

        dist.barrier()
    """
    calls = [f"touch_early(lambda a, b, c: {call})" for call, _, _ in CALLS.values()]
    return run_ranks(tmp_path_factory.mktemp("calls"), "\n".join([dedent(program), *calls]))


@pytest.mark.parametrize("name", CALLS)
def test_each_collective_reads_and_writes_its_buffers(
    touched_early: list[Outcome], name: str
) -> None:
    """Reading what is read is allowed before the wait; any other early touch is a finding."""
    call, reads, writes = CALLS[name]

    def bytes_on(rank: int, names: str) -> list[int]:
        parts = [name.partition("@") for name in names.split()]
        return [BYTES[name] for name, _, only in parts if only in ("", str(rank))]

    for rank, outcome in enumerate(touched_early):
        found = sorted(
            (
                f["code"],
                f["kind"],
                f["second"]["op"],
                # A list of buffers is one finding, met once for each of them.
                (f["overlap"]["end"] - f["overlap"]["begin"]) * f["count"],
            )
            for f in outcome.findings
            if call in outcome.line_of(f["first"])
        )
        expected = [("SG006", "WAR", "aten::fill_", size) for size in bytes_on(rank, reads)]
        for size in bytes_on(rank, writes):
            expected.append(("SG006", "RAW", "aten::sum", size))
            expected.append(("SG006", "WAW", "aten::fill_", size))

        assert found == sorted(expected)


def test_ddp_training_is_clean(tmp_path: Path) -> None:
    """DistributedDataParallel orders its buckets, gradients and optimizer completely."""
    program = """
        torch.manual_seed(0)
        layers = [torch.nn.Linear(64, 64) for _ in range(4)]
        model = torch.nn.Sequential(*layers).cuda()
        ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
        optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3, fused=True)
        for _ in range(4):
            loss = ddp(torch.randn(8, 64, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        dist.destroy_process_group()
    """
    for outcome in run_ranks(tmp_path, program):
        assert_clean(outcome, ops_at_least=100)
        assert outcome.coverage["collectives"] >= 12


def test_coalesced_collectives_are_waited_for_as_one(tmp_path: Path) -> None:
    """The manager's one wait orders every buffer of the group."""
    program = """
        tensors = [torch.ones(8, device="cuda") for _ in range(3)]
        with dist._coalescing_manager(async_ops=True) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        manager.wait()
        for tensor in tensors:
            tensor.mul_(2)
    """
    for outcome in run_ranks(tmp_path, program):
        assert_clean(outcome, ops_at_least=4)


def test_batched_point_to_point_is_ordered_by_its_works(tmp_path: Path) -> None:
    """Sends and receives of one batch end where their works are waited for."""
    program = """
        mine, theirs = torch.ones(8, device="cuda"), torch.empty(8, device="cuda")
        peer = 1 - rank
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, mine, peer), dist.P2POp(dist.irecv, theirs, peer)]
        )
        for work in works:
            work.wait()
        mine.fill_(0)
        theirs.mul_(2)
    """
    for outcome in run_ranks(tmp_path, program):
        assert_clean(outcome, ops_at_least=5)


def test_block_whose_users_only_the_allocator_knows_is_never_accused(tmp_path: Path) -> None:
    """Sends and receives call record_stream unseen; a free that completes late is trusted."""
    program = """
        t = torch.ones(1024, device="cuda")
        address = t.data_ptr()
        dist.barrier()
        torch.cuda.synchronize()
        work = dist.isend(t, 1) if rank == 0 else dist.irecv(t, 0)
        del t, work
        for _ in range(50):
            y = None
            y = torch.empty(1024, device="cuda")
            if y.data_ptr() == address:
                break
        assert y.data_ptr() == address
        y.fill_(7)
    """
    for outcome in run_ranks(tmp_path, program):
        assert_clean(outcome, ops_at_least=3)
