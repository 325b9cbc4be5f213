"""Values follow stream order: a missing wait shows in them, a present one does not."""

from __future__ import annotations

import pytest

from tests.vgpu.values_program import SCHEDULES, result_of, start


def _sum_of_side_stream_product(wait: str, schedule: str) -> float:
    total: float = result_of(
        f"""
        x = torch.full((4, 4), 2.0, device="cuda")
        y = torch.zeros(4, 4, device="cuda")
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.mm(x, x, out=y)
        {wait}
        print(json.dumps(y.sum().item()))
        """,
        schedule=schedule,
    )
    return total


def test_missing_wait_gives_the_old_values_under_lazy() -> None:
    """The product on the side stream has not run when the default stream reads its result."""
    assert _sum_of_side_stream_product("pass", "lazy") == 0.0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_wait_gives_the_product(schedule: str) -> None:
    """16 elements of 4 * 2 * 2, whichever schedule."""
    wait = "torch.cuda.current_stream().wait_stream(side)"

    assert _sum_of_side_stream_product(wait, schedule) == 256.0


def test_block_reused_without_record_stream_is_read_with_its_new_values() -> None:
    """A twin owns no memory: it reads the freed block that the next op has filled."""
    program = """
        source = torch.ones(1024, device="cuda")
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            total = source.sum()
        {keep}
        del source
        other = torch.full((1024,), 5.0, device="cuda")
        torch.cuda.current_stream().synchronize()
        side.synchronize()
        print(json.dumps(total.item()))
    """

    lost = result_of(program.format(keep="pass"), schedule="lazy")
    kept = result_of(program.format(keep="source.record_stream(side)"), schedule="lazy")

    assert (lost, kept) == (5 * 1024.0, 1024.0)


def test_data_dependent_result_is_written_in_stream_order() -> None:
    """Its block may have been freed by a thread whose ops on it are still pending on the stream."""
    pending = result_of(
        """
        import ctypes
        runtime = ctypes.CDLL(None)
        x = torch.tensor([0.0, 1.0, 2.0], device="cuda")
        torch.cuda.synchronize()
        before = runtime.streamguard_vgpu_pending()
        found = x.nonzero()
        after = runtime.streamguard_vgpu_pending()
        print(json.dumps([before, after, found.tolist()]))
        """,
        schedule="lazy",
    )

    assert pending == [0, 1, [[1], [2]]]


RANDOM_DRAWS = """
    torch.cuda.manual_seed(3)
    own = torch.Generator("cuda").manual_seed(4)
    draws = [
        torch.randn(20, device="cuda"), torch.rand(5, device="cuda", generator=own),
        torch.randint(0, 100, (9,), device="cuda"), torch.randperm(9, device="cuda"),
        torch.nn.functional.dropout(torch.ones(40, device="cuda"), 0.5),
        torch.ones(2, 4, device="cuda").multinomial(3),
        torch.empty(5, device="cuda").exponential_(),
        torch.full((30,), 0.3, device="cuda").bernoulli(), torch.randn(20, device="cuda"),
    ]
    draws = [draw.tolist() for draw in draws]
"""


def test_random_numbers_do_not_depend_on_the_schedule() -> None:
    """Eager and lazy draw the same numbers, and two draws differ."""
    program = RANDOM_DRAWS + "\n    print(json.dumps(draws))"

    eager, lazy = (result_of(program, schedule=schedule) for schedule in SCHEDULES)

    assert eager == lazy
    assert eager[0] != eager[-1]
    assert sorted(set(eager[4])) == [0.0, 2.0]
    assert list(range(9)) == sorted(eager[3])


def test_cpu_argument_is_read_at_issue() -> None:
    """The program may overwrite a CPU tensor as soon as the op that takes it was called."""
    sums = result_of(
        """
        x, factor = torch.ones(3, device="cuda"), torch.tensor(2.0)
        torch.cuda.synchronize()
        product = x * factor
        factor.fill_(100.0)
        print(json.dumps(product.sum().item()))
        """,
        schedule="lazy",
    )

    assert sums == 6.0


def test_twins_are_no_ops_of_the_program() -> None:
    """An observer of record functions sees the device's op once and nothing of its CPU kernel."""
    names = result_of(
        """
        x = torch.ones(4, 4, device="cuda")
        with torch.autograd.profiler.profile() as profile:
            y = torch.nn.functional.layer_norm(x, (4,))
        print(json.dumps([event.name for event in profile.function_events]))
        """
    )

    assert names.count("aten::native_layer_norm") == 1
    assert "aten::copy_" not in names


def test_random_ops_leave_the_cpus_generator_alone() -> None:
    """A program's CPU numbers are the same whether or not it draws on the device."""
    program = (
        "    torch.manual_seed(1)\n"
        + RANDOM_DRAWS
        + "\n    drawn = torch.randn(3)\n    torch.manual_seed(1)"
        + "\n    print(json.dumps([drawn.tolist(), torch.randn(3).tolist()]))"
    )

    drawn, expected = result_of(program)

    assert expected == drawn


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_replayed_graph_computes_anew(schedule: str) -> None:
    """Each replay reads what its input buffer holds then, also for results in private memory."""
    replayed = result_of(
        """
        x = torch.zeros(3, device="cuda")
        y = torch.zeros(3, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y += (x * 2 + 1).sum()
        totals = []
        for value in (1.0, 2.0):
            x.fill_(value)
            graph.replay()
            totals.append(y.tolist())
        print(json.dumps(totals))
        """,
        schedule=schedule,
    )

    assert replayed == [[9.0] * 3, [24.0] * 3]


def test_replayed_random_op_draws_anew() -> None:
    """Two replays give different numbers."""
    first, second = result_of(
        """
        x = torch.zeros(16, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.uniform_()
        draws = []
        for _ in range(2):
            graph.replay()
            draws.append(x.tolist())
        print(json.dumps(draws))
        """
    )

    assert first != second


def test_values_off_computes_nothing() -> None:
    """With STREAMGUARD_VGPU_VALUES=0 no override is registered and programs still run."""
    run = start(
        """
        x = torch.ones(3, device="cuda") + 1
        torch.cuda.synchronize()
        print(json.dumps([len(values.operators()), values.coverage().twins]))
        """,
        environment={"STREAMGUARD_VGPU_VALUES": "0"},
    )

    assert (run.returncode, run.stdout) == (0, "[0, 0]\n")
