"""What STREAMGUARD_REDUCER=repair refuses: by name, before a step, and not before the variable."""

from __future__ import annotations

import json
import subprocess

import pytest

from streamguard.deepspeed.repair import supported
from streamguard.errors import UnsupportedReducerError
from tests.deepspeed.training import BIN, ROOT, environment_of


def initialize(reducer: str, zero_optimization: dict[str, object]) -> tuple[int, str]:
    """Return the status and output of one rank that makes an engine and trains a step."""
    environment = environment_of("0.19.8") | {"STREAMGUARD_VGPU": "1"}
    environment["STREAMGUARD_REDUCER"] = reducer
    done = subprocess.run(
        [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", "1",
         "tests/deepspeed/initialize.py", json.dumps(zero_optimization)],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("zero_optimization", "named"),
    [
        pytest.param({"stage": 3}, "ZeRO stage 3 with DeepSpeedZeroOptimizer_Stage3", id="stage 3"),
        pytest.param(
            {"stage": 0}, "ZeRO stage 0 with", id="stage 0", marks=pytest.mark.deepspeed_matrix
        ),
        pytest.param(
            {"stage": 2, "offload_optimizer": {"device": "cpu"}},
            "zero_optimization.offload_optimizer",
            id="offload",
            marks=pytest.mark.deepspeed_matrix,
        ),
    ],
)
def test_an_engine_that_cannot_be_repaired_is_refused(
    zero_optimization: dict[str, object], named: str
) -> None:
    """The error says what was found, and no step is trained."""
    status, text = initialize("repair", zero_optimization)

    assert status != 0
    assert "UnsupportedReducerError: STREAMGUARD_REDUCER=repair" in text
    assert named in text
    assert "trained" not in text


@pytest.mark.deepspeed_matrix
def test_the_same_engine_trains_where_it_can_be_repaired() -> None:
    """The twin differs in the stage alone."""
    status, text = initialize("repair", {"stage": 2})

    assert (status, "trained" in text) == (0, True), text[-4000:]


class Reducer:
    """A class with the methods that the repair wraps."""

    average_tensor = get_grad_norm_direct = reduce_ipg_grads = scaled_global_norm = None
    reduce_independent_p_g_buckets_and_remove_grads = None


class WithoutNorm:
    """The same without one of them."""

    average_tensor = reduce_ipg_grads = scaled_global_norm = None
    reduce_independent_p_g_buckets_and_remove_grads = None


@pytest.mark.parametrize("release", ["0.9.5", "0.14.3", "0.19.8", "0.19.8+local"])
def test_known_releases_are_accepted(release: str) -> None:
    """From the first release to the newest minor one."""
    supported.check_release(release, Reducer)


@pytest.mark.parametrize(
    ("release", "owner", "found"),
    [
        ("0.9.4", Reducer, "DeepSpeed 0.9.4"),
        ("0.20.0", Reducer, "DeepSpeed 0.20.0"),
        ("0.19.9", WithoutNorm, "DeepSpeed 0.19.9 without get_grad_norm_direct"),
    ],
)
def test_other_releases_are_refused(release: str, owner: type, found: str) -> None:
    """A release whose code was not read, or that lacks a method, is named."""
    with pytest.raises(UnsupportedReducerError) as caught:
        supported.check_release(release, owner)

    assert (caught.value.reducer, caught.value.found) == ("repair", found)
