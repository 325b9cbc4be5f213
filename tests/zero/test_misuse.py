"""ZeroOptimizer used wrongly or in rare ways: an error that says so, or the right result."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.verify.jobs import Jobs

PROGRAMS = "tests.zero.misuse_programs"


def test_ranks_give_up_a_step_of_several_backwards_together(jobs: Jobs) -> None:
    """Rank 0 lacks two of three; without the number the others say so and wait for nobody."""
    program = f"{PROGRAMS}:give_up"
    good = jobs.run(program, {"fails": False}, ranks=2, schedule="lazy")
    failed = jobs.run(program, {"fails": True}, ranks=2, schedule="lazy")

    assert failed[0]["said"] == ""
    assert "abandon(backwards=1) after 3 backwards" in failed[1]["said"]
    assert [rank["values"] for rank in failed] == [rank["values"] for rank in good]


def test_sums_of_no_sync_are_given_up_too(jobs: Jobs) -> None:
    """What was only accumulated is not in the next step's gradient."""
    assert jobs.run(f"{PROGRAMS}:give_up_sums", None, ranks=2) == (True, True)


def test_every_wrong_option_is_named_with_its_value(jobs: Jobs) -> None:
    """Wrong types, signs, dtypes, and optimizers that need whole tensors."""
    (found,) = jobs.run(f"{PROGRAMS}:wrong_options", None, ranks=1)

    for option, said in found.items():
        name, value = option.split("=", 1)
        if name != "optimizer_class":
            assert said.startswith(f"{name}={value}: expected"), (option, said)
    whole = [said for said in found.values() if "looks at whole tensors" in said]
    assert [said.split()[0] for said in whole] == ["Adafactor", "LBFGS"]
    assert all(found.values()), found


def test_a_second_optimizer_needs_the_first_one_closed(jobs: Jobs) -> None:
    """Otherwise the first one's hooks would take the second one's gradients away."""
    for result in jobs.run(f"{PROGRAMS}:take_over", None, ranks=2):
        assert "call close(), then make a new ZeroOptimizer" in result["said"][0]
        assert "parameter 1 belongs to another reducer" in result["said"][1]
        assert "parameter 1 belongs to another reducer" in result["said"][2]
        assert result["same"]


def test_the_state_of_another_model_is_refused_and_changes_nothing(jobs: Jobs) -> None:
    """Other sizes, other groups, and what is no state at all."""
    for result in jobs.run(f"{PROGRAMS}:wrong_states", None, ranks=2):
        said = result["said"]
        assert (
            "the master of parameter 0 has 192 elements in the loaded state and 160"
            in said["wider"]
        )
        assert "of parameter 0 has 192 elements in the loaded state and 160" in said["wider, plain"]
        for name in ("shorter", "shorter, plain"):
            assert "groups of [1, 1] parameters, this optimizer of [2, 4]" in said[name]
        assert "found [], expected state, param_groups" in said["empty"]
        assert "expected state, param_groups, loss_scale, has_state" in said["sharded, empty"]
        assert result["trained"]


def test_a_parameter_without_dimensions_keeps_its_state(jobs: Jobs) -> None:
    """Its moments look like the step count, which every range has whole."""
    assert jobs.run(f"{PROGRAMS}:scalar_parameter", None, ranks=2) == (True, True)


@pytest.mark.parametrize("ranks", [1, 2])
def test_saving_before_the_first_step_changes_no_step(
    jobs: Jobs, ranks: int, tmp_path: Path
) -> None:
    """Neither of the optimizer that is saved nor of the one that loads."""
    argument = {"directory": str(tmp_path)}
    results = jobs.run(f"{PROGRAMS}:saved_before_the_first_step", argument, ranks=ranks)

    assert results == ([True, True],) * ranks
