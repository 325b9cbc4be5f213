"""CUDA graphs: capture runs nothing, each replay is one op of its stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run, run_ranks

CAPTURED = """
x = torch.zeros(1024, device="cuda")
y = torch.zeros(1024, device="cuda")
side = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y.copy_(x * 2)
torch.cuda.synchronize()
"""


def test_a_capture_alone_runs_nothing(tmp_path: Path) -> None:
    """Another stream may write what the graph reads, before and after the capture."""
    outcome = run(
        tmp_path, f"{CAPTURED}with torch.cuda.stream(side):\n    x.fill_(1)\nx.fill_(2)\n"
    )

    assert [(f["first"]["op"], f["second"]["op"]) for f in outcome.findings] == [
        ("aten::fill_", "aten::fill_")
    ]
    assert outcome.coverage["graph_replays"] == 0
    # Two zeros and two fills; what was captured does not count.
    assert outcome.coverage["ops"] == 4


def input_program(order: str) -> str:
    """Another stream writes the graph's input, which a replay then reads."""
    return f"""{CAPTURED}
with torch.cuda.stream(side):
    x.fill_(1)
{order}
graph.replay()
"""


def test_a_replay_reads_its_input(tmp_path: Path) -> None:
    """The finding shows the captured op and the line that captured it."""
    outcome = run(tmp_path, input_program("pass"))

    assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side("aten::mul in CUDA graph", "read", "default", "y.copy_(x * 2)"),
        size=4096,
    )
    assert outcome.coverage["graph_replays"] == 1


def test_a_replay_after_a_wait_is_clean(tmp_path: Path) -> None:
    """The twin differs in one wait; the two ops of the graph count once they run."""
    outcome = run(tmp_path, input_program("torch.cuda.current_stream().wait_stream(side)"))

    assert_clean(outcome)
    assert outcome.coverage["ops"] == 3 + 2
    assert outcome.coverage["opaque"] == {}


def output_program(order: str) -> str:
    """A replay on one stream writes what another stream reads."""
    return f"""{CAPTURED}
graph.replay()
{order}
with torch.cuda.stream(side):
    total = y.sum()
"""


def test_a_replay_writes_its_output(tmp_path: Path) -> None:
    """What a graph writes is unordered for every stream but its own."""
    assert_only_finding(
        run(tmp_path, output_program("pass")),
        code="SG001",
        kind="RAW",
        first=Side("aten::copy_ in CUDA graph", "write", "default", "y.copy_(x * 2)"),
        second=Side("aten::sum", "read", "side", "total = y.sum()"),
        size=4096,
    )


def test_a_waited_for_output_is_clean(tmp_path: Path) -> None:
    """The twin differs in one wait."""
    outcome = run(tmp_path, output_program("side.wait_stream(torch.cuda.current_stream())"))

    assert_clean(outcome, ops_at_least=5)


def forked_program(join: str) -> str:
    """A capture with two branches that touch one tensor, joined late or early."""
    early, late = ("", join) if join.endswith("late") else (join, "")
    return f"""
        x = torch.zeros(1024, device="cuda")
        side = torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            main = torch.cuda.current_stream()
            side.wait_stream(main)
            with torch.cuda.stream(side):
                x.fill_(1)
            {early}
            x.add_(2)
            {late}
        graph.replay()
        graph.replay()
    """


def test_a_race_inside_a_graph_is_found_when_it_runs(tmp_path: Path) -> None:
    """Branches of a capture keep the order that it gave them, and no other; launches queue."""
    assert_only_finding(
        run(tmp_path, forked_program("main.wait_stream(side)  # late")),
        code="SG003",
        kind="WAW",
        first=Side("aten::fill_ in CUDA graph", "write", "default", "x.fill_(1)"),
        second=Side("aten::add_ in CUDA graph", "write", "default", "x.add_(2)"),
        size=4096,
        count=2,
    )


def test_a_graph_whose_branches_are_joined_first_is_clean(tmp_path: Path) -> None:
    """The twin joins the branches one line earlier."""
    outcome = run(tmp_path, forked_program("main.wait_stream(side)"))

    assert_clean(outcome)
    assert outcome.coverage["graph_replays"] == 2


def freed_input_program(keep: str) -> str:
    """Replay a graph whose input was dropped, or kept by one more name."""
    return f"""
        x = torch.zeros(1024, device="cuda")
        {keep}
        y = torch.zeros(1024, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y.copy_(x)
        del x
        graph.replay()
    """


def test_a_replay_that_reads_a_freed_block_is_reported(tmp_path: Path) -> None:
    """The address is baked into the graph: the block may belong to somebody else by now."""
    outcome = run(tmp_path, freed_input_program("pass"))

    assert [(f["code"], f["kind"], f["second"]["op"]) for f in outcome.findings] == [
        ("SG007", "UAF", "aten::copy_ in CUDA graph")
    ]


def test_a_replay_whose_input_is_kept_is_clean(tmp_path: Path) -> None:
    """The twin differs in one reference."""
    assert_clean(run(tmp_path, freed_input_program("kept = x")))


def test_the_graphs_own_memory_is_not_freed(tmp_path: Path) -> None:
    """Temporaries of a capture and outputs that the program dropped are written at each replay.

    The second graph takes over bytes of the first one's pool, which is right when they run in turn.
    """
    program = """
        x = torch.zeros(1024, device="cuda")
        pool = torch.cuda.graph_pool_handle()
        graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
        for graph in graphs:
            with torch.cuda.graph(graph, pool=pool):
                y = (x * 2 + 1).relu()
            del y
        for _ in range(3):
            for graph in graphs:
                graph.replay()
            z = torch.zeros(1024, device="cuda")
        torch.cuda.synchronize()
        graphs[0].reset()
        del graphs, graph
        torch.cuda.empty_cache()
        z = torch.zeros(4096, device="cuda")
    """
    outcome = run(tmp_path, program)

    assert_clean(outcome)
    assert outcome.coverage["graph_replays"] == 6
    assert outcome.coverage["ops"] == 1 + 6 * 3 + 3 + 1


def shared_pool_program(order: str) -> str:
    """Replay two graphs of one pool on two streams."""
    return f"""
        x = torch.zeros(1024, device="cuda")
        side = torch.cuda.Stream()
        pool = torch.cuda.graph_pool_handle()
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first, pool=pool):
            y = x * 2
        del y
        with torch.cuda.graph(second, pool=pool):
            z = x * 3
        torch.cuda.synchronize()
        first.replay()
        {order}
        with torch.cuda.stream(side):
            second.replay()
    """


def test_graphs_of_one_pool_may_not_run_at_the_same_time(tmp_path: Path) -> None:
    """Both write the bytes that they share."""
    assert_only_finding(
        run(tmp_path, shared_pool_program("pass")),
        code="SG004",
        kind="WAW",
        first=Side("aten::mul in CUDA graph", "write", "default", "y = x * 2"),
        second=Side("aten::mul in CUDA graph", "write", "side", "z = x * 3"),
        size=4096,
    )


def test_graphs_of_one_pool_that_run_in_turn_are_clean(tmp_path: Path) -> None:
    """The twin differs in one wait."""
    order = "side.wait_stream(torch.cuda.current_stream())"

    assert_clean(run(tmp_path, shared_pool_program(order)))


def test_graphed_callables_and_random_numbers_are_clean(tmp_path: Path) -> None:
    """Warm-up on a side stream, forward and backward graphs, and seeds set before each replay."""
    program = """
        torch.manual_seed(0)
        layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).cuda()
        sample = torch.randn(8, 64, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(layer, (sample,))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(3):
            graphed(torch.randn(8, 64, device="cuda", requires_grad=True)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.synchronize()
    """
    outcome = run(tmp_path, program)

    assert_clean(outcome, ops_at_least=30)
    assert outcome.coverage["graph_replays"] == 6
    assert outcome.coverage["opaque"] == {}


def collective_program(order: str) -> str:
    """Capture an asynchronous all_reduce and write its buffer within the capture."""
    return f"""
        x = torch.ones(1024, device="cuda")
        dist.all_reduce(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work = dist.all_reduce(x, async_op=True)
            {order}
            x.mul_(2)
            work.wait()
        graph.replay()
    """


@pytest.mark.parametrize("order", ["pass", "work.wait()"])
def test_a_captured_collective_keeps_its_stream(tmp_path: Path, order: str) -> None:
    """Inside a graph too a buffer may not be touched before its work was waited for."""
    for outcome in run_ranks(tmp_path, collective_program(order)):
        if order == "work.wait()":
            assert_clean(outcome, ops_at_least=3)
            continue
        finding = assert_only_finding(
            outcome,
            code="SG006",
            kind="WAW",
            first=Side(
                "c10d::allreduce_ in CUDA graph",
                "write",
                "default",
                "work = dist.all_reduce(x, async_op=True)",
            ),
            second=Side("aten::mul_ in CUDA graph", "write", "default", "x.mul_(2)"),
            size=4096,
        )
        assert finding["first"]["collective"] == {"async": True, "group": "default_pg"}


def test_a_graph_captured_before_the_hooks_is_counted(tmp_path: Path) -> None:
    """Its replays cannot be followed, and the coverage says so."""
    program = """
        x = torch.zeros(1024, device="cuda")
        graph = torch.cuda.CUDAGraph()
        original = torch._C._CUDAGraph.capture_begin
        torch._C._CUDAGraph.capture_begin = original.__wrapped__
        with torch.cuda.graph(graph):
            x.add_(1)
        torch._C._CUDAGraph.capture_begin = original
        graph.replay()
    """
    outcome = run(tmp_path, program)

    assert outcome.coverage["opaque"] == {"replays of graphs whose capture was not seen": 1}
