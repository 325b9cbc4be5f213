"""Random models: every gradient is the plain sum, and no schedule changes a bit."""

from __future__ import annotations

import pytest

from streamguard.verify.jobs import Jobs

PROGRAM = "tests.zero.programs:train_random_models"
SCHEDULES = ("lazy", "random:7", "extreme:0,1", "extreme:1,0", "extreme:2,1", "extreme:1,2")


def check(jobs: Jobs, seeds: list[int], *, ranks: int, schedules: tuple[str, ...]) -> None:
    """Train the seeds' models without overlap, then with overlap under each schedule."""
    argument = {"seeds": seeds, "overlap": False}
    plain = jobs.run(PROGRAM, argument, ranks=ranks, schedule="eager")
    for schedule in schedules:
        argument = {"seeds": seeds, "overlap": True}
        results = jobs.run(PROGRAM, argument, ranks=ranks, schedule=schedule)
        for rank, (expected, models) in enumerate(zip(plain, results, strict=True)):
            for seed, serial, model in zip(seeds, expected, models, strict=True):
                case = f"seed {seed}, rank {rank} of {ranks}, {schedule}"

                assert model["worst"] <= 1, case
                assert model["left_grads"] == 0, case
                assert model["digest"] == serial["digest"], case


@pytest.mark.parametrize(("ranks", "models"), [(1, 6), (2, 6), (3, 4), (4, 3), (8, 1)])
def test_gradients_of_random_models_are_the_plain_sum_under_any_schedule(
    jobs: Jobs, ranks: int, models: int
) -> None:
    """Sizes, dtypes, frozen, tied and unused parameters, streams, accumulation and rings vary."""
    seeds = list(range(ranks * 1000, ranks * 1000 + models))

    check(jobs, seeds, ranks=ranks, schedules=("lazy", "extreme:1,0"))


def test_small_float16_gradients_keep_their_bits_on_a_wider_wire(jobs: Jobs) -> None:
    """Gradients below float16's normal numbers, divided before the sum, reduced in float32."""
    check(jobs, [100_090], ranks=1, schedules=("lazy",))


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("block", range(10))
def test_five_hundred_random_models(jobs: Jobs, ranks: int, block: int) -> None:
    """The same over 500 models and more schedules."""
    first = 100_000 * ranks + 10 * block
    seeds = list(range(first, first + 10))

    check(jobs, seeds, ranks=ranks, schedules=SCHEDULES)
