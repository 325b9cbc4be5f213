"""ZeroOptimizer in training loops: beside DDP, with sub-groups, its memory and its collectives."""

from __future__ import annotations

import math

import pytest

from streamguard.verify.jobs import Jobs

PROGRAMS = "tests.zero.training_programs"


@pytest.mark.parametrize(("ranks", "stage"), [(2, 2), (2, 1), (3, 2)])
def test_it_trains_as_ddp_and_the_plain_optimizer_do(jobs: Jobs, ranks: int, stage: int) -> None:
    """Two decays, clipping and a scheduler included; the norm is that of all gradients."""
    results = jobs.run(f"{PROGRAMS}:beside_ddp", {"stage": stage}, ranks=ranks, schedule="lazy")

    for result in results:
        assert result["ours"] == results[0]["ours"]
        assert result["ours"] == pytest.approx(result["ddp"], abs=1e-6)
        for norm, expected in result["norms"]:
            assert norm == pytest.approx(expected, rel=1e-5)


def test_parameters_of_sub_groups_are_averaged_there_and_counted_once(jobs: Jobs) -> None:
    """Experts over half of the ranks, dense parameters over all, one norm over everything."""
    results = jobs.run(f"{PROGRAMS}:two_groups", None, ranks=4, schedule="lazy")

    for result in results:
        assert max(result["errors"]) < 1e-6
        assert result["norm"] == pytest.approx(result["expected"], rel=1e-6)


def test_memory_is_two_buckets_and_a_share_and_nothing_is_allocated_later(jobs: Jobs) -> None:
    """Two ranks: shards hold half of the gradients, slots two buckets."""
    for result in jobs.run(f"{PROGRAMS}:steady_state", None, ranks=2, schedule="lazy"):
        assert result["slots"] == 2 * result["bucket_bytes"] == 1024
        assert result["shards"] == (result["gradient_bytes"] + result["padding_bytes"]) // 2
        assert result["deferred"] == 0
        assert result["device_allocations"] == 0
        assert result["blocks"] == 0
        assert result["peaks"] == 1


def test_no_gradient_waits_for_another_group_s_bucket_when_the_order_is_given(jobs: Jobs) -> None:
    """Weights and biases in two groups: without the order 160 float32 wait for the first bias."""
    program = f"{PROGRAMS}:deferred_with_two_groups"

    assert jobs.run(program, {"is_ordered": True}, ranks=2) == (0, 0)
    assert min(jobs.run(program, {"is_ordered": False}, ranks=2)) >= 640


def test_norm_clipping_and_overflow_take_one_small_collective_a_step(jobs: Jobs) -> None:
    """Four ranks with two groups each: one all-reduce of two numbers, whatever they own."""
    outcome = jobs.run_logged(f"{PROGRAMS}:two_groups", None, ranks=4, schedule="eager")

    for calls in outcome.calls:
        assert calls.count("collective_start all_reduce(2,float64)") == 1


def test_an_overflow_on_one_rank_skips_the_step_on_all(jobs: Jobs) -> None:
    """The scale halves there, doubles after two good steps in a row, and nothing stale remains."""
    for result in jobs.run(f"{PROGRAMS}:overflow", None, ranks=2, schedule="lazy"):
        assert result["scales"] == [1024.0, 512.0, 512.0]
        assert result["kept"] == [False, True, False]
        assert result["skipped"] == 1


@pytest.mark.parametrize("schedule", ["lazy", "random:3"])
def test_a_backward_that_raised_on_one_rank_leaves_nothing_behind(
    jobs: Jobs, schedule: str
) -> None:
    """step() and zero_grad() refuse; after abandon() on all ranks it is as if it never was."""
    program = f"{PROGRAMS}:raise_inside_backward"
    good = jobs.run(program, {"fails": False}, ranks=2, schedule=schedule)
    failed = jobs.run(program, {"fails": True}, ranks=2, schedule=schedule)

    assert failed[0]["errors"] == ["RuntimeError", "UsageError", "UsageError"]
    assert failed[1]["errors"] == []
    assert [rank["values"] for rank in failed] == [rank["values"] for rank in good]
    assert all(map(math.isfinite, good[0]["values"]))


def test_the_others_end_with_an_error_when_a_rank_dies_in_backward(jobs: Jobs) -> None:
    """No hang: the peers' collectives fail."""
    outcome = jobs.outcome(f"{PROGRAMS}:lose_a_rank", None, ranks=3, schedule="eager")

    assert not outcome.timed_out
    assert outcome.statuses[2] == -9
    assert all(status != 0 for status in outcome.statuses[:2])


def test_what_cannot_work_is_refused(jobs: Jobs) -> None:
    """Each with an error of its own before anything wrong is computed."""
    (result,) = jobs.run(f"{PROGRAMS}:refusals", None, ranks=1)

    assert set(result.values()) == {"UsageError"}, result
