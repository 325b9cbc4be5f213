"""What torch does not trace: queries that order the host, and graphs whose capture runs nothing."""

from pathlib import Path

import pytest

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run


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


def graph_program(order: str) -> str:
    """Capture and replay a graph, and then race on a tensor unless `order` prevents it."""
    return f"""
        x = torch.zeros(1024, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2
        x.fill_(1)
        graph.replay()
        total = y.sum()
        z = torch.zeros(1024, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            z.fill_(3)
        {order}
        z.add_(1)
    """


def test_capturing_and_replaying_a_graph_is_no_race(tmp_path: Path) -> None:
    """Captured ops run nothing; they are counted, since their replays are not seen."""
    outcome = run(tmp_path, graph_program("torch.cuda.current_stream().wait_stream(side)"))

    assert_clean(outcome, ops_at_least=5)
    captured = "ops captured into graphs, whose replays are not seen"
    assert outcome.coverage["opaque"] == {captured: 1}


def test_a_race_after_the_capture_is_reported(tmp_path: Path) -> None:
    """The end of a capture ends what is passed over; the twin differs in one wait."""
    assert_only_finding(
        run(tmp_path, graph_program("pass")),
        code="SG003",
        kind="WAW",
        first=Side("aten::fill_", "write", "side", "z.fill_(3)"),
        second=Side("aten::add_", "write", "default", "z.add_(1)"),
        size=4096,
    )
