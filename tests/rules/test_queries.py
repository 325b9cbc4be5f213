"""Queries that say "done" order the host; torch traces none of them."""

from pathlib import Path

import pytest

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run, run_ranks


def download_program(until_done: str) -> str:
    """Copy to pinned memory, ask whether the copy is done, and read it on the host."""
    return f"""
        x = torch.ones(1024, device="cuda")
        pinned = torch.empty(1024, pin_memory=True)
        event = torch.cuda.Event()
        pinned.copy_(x, non_blocking=True)
        event.record()
        {until_done}
        total = pinned.sum()
    """


@pytest.mark.parametrize("query", ["event.query()", "torch.cuda.current_stream().query()"])
def test_a_query_that_says_done_orders_the_host(tmp_path: Path, query: str) -> None:
    """HB-04: after a successful query of the event or the stream the copy has arrived."""
    program = download_program(f"while not {query}: pass")

    assert_clean(run(tmp_path, program), ops_at_least=2)


def test_without_the_query_the_read_is_reported(tmp_path: Path) -> None:
    """The twin differs in the query alone."""
    assert_only_finding(
        run(tmp_path, download_program("pass")),
        code="SG005",
        kind="RAW",
        first=Side("aten::copy_", "write", "default", "pinned.copy_(x, non_blocking=True)"),
        second=Side("aten::sum", "read", "host", "total = pinned.sum()"),
        size=4096,
    )


def polled_program(until_done: str) -> str:
    """Poll an asynchronous collective's work, then read its result on another stream."""
    return f"""
        side = torch.cuda.Stream()
        x = torch.ones(1024, device="cuda")
        torch.cuda.synchronize()
        work = dist.all_reduce(x, async_op=True)
        {until_done}
        with torch.cuda.stream(side):
            total = x.sum()
        work.wait()
    """


@pytest.mark.parametrize(
    "until_done",
    [
        "while not work.is_completed(): pass",
        "work.wait(datetime.timedelta(seconds=60))",
    ],
)
def test_a_work_that_says_done_orders_the_host(tmp_path: Path, until_done: str) -> None:
    """After `is_completed`, and after a wait that blocks the host, every stream may read."""
    for outcome in run_ranks(tmp_path, polled_program(until_done)):
        assert_clean(outcome, ops_at_least=3)


def test_a_blocking_wait_orders_the_host(tmp_path: Path) -> None:
    """`TORCH_NCCL_BLOCKING_WAIT` makes every wait block the host."""
    outcomes = run_ranks(tmp_path, polled_program("work.wait()"), TORCH_NCCL_BLOCKING_WAIT="1")

    for outcome in outcomes:
        assert_clean(outcome, ops_at_least=3)


def grouped_program(until_done: str) -> str:
    """Poll the work of a coalesced group, then read a result on another stream."""
    return f"""
        side = torch.cuda.Stream()
        x, y = (torch.ones(1024, device="cuda") for _ in range(2))
        torch.cuda.synchronize()
        with dist._coalescing_manager(async_ops=True) as group:
            dist.all_reduce(x)
            dist.all_reduce(y)
        {until_done}
        with torch.cuda.stream(side):
            total = x.sum()
        group.wait()
    """


def test_the_work_of_a_group_stands_for_its_calls(tmp_path: Path) -> None:
    """The calls inside a coalescing group have no work of their own."""
    until_done = "while not group.works[0].is_completed(): pass"
    for outcome in run_ranks(tmp_path, grouped_program(until_done)):
        assert_clean(outcome, ops_at_least=3)


@pytest.mark.parametrize("program", [polled_program("pass"), grouped_program("pass")])
def test_without_asking_the_read_of_a_result_is_reported(tmp_path: Path, program: str) -> None:
    """The twin differs in the question alone."""
    for outcome in run_ranks(tmp_path, program):
        found = [(f["code"], f["kind"], f["second"]["op"]) for f in outcome.findings]

        assert found == [("SG006", "RAW", "aten::sum")]
