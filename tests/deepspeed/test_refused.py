"""What STREAMGUARD_REDUCER refuses: by name, before a step, and not before the variable."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

from streamguard.deepspeed.supported import OWN, REPAIR
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
@pytest.mark.parametrize(
    ("zero_optimization", "named"),
    [
        pytest.param({"stage": 3}, "ZeRO stage 3 with DeepSpeedZeroOptimizer_Stage3", id="stage 3"),
        pytest.param({"stage": 0}, "ZeRO stage 0 with", id="stage 0"),
        pytest.param(
            {"stage": 2, "offload_optimizer": {"device": "cpu"}},
            "zero_optimization.offload_optimizer",
            id="offload",
        ),
    ],
)
def test_an_engine_that_the_own_reducer_cannot_serve_is_refused(
    zero_optimization: dict[str, object], named: str
) -> None:
    """Nothing is trained with half of it in place."""
    status, text = initialize("own", zero_optimization)

    assert status != 0
    assert "UnsupportedReducerError: STREAMGUARD_REDUCER=own" in text
    assert named in text
    assert "trained" not in text


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"sequence_parallel_size": 2}, "sequence parallelism"),
        (
            {"ipg_buckets": {"float16": None, "float32": None}},
            "several communication dtypes (torch_autocast)",
        ),
        (
            {"bit16_groups": [[SimpleNamespace(dtype="a")], [SimpleNamespace(dtype="b")]]},
            "parameters of several dtypes",
        ),
        (
            {"has_moe_layers": True, "zenflow": True},
            "mixture-of-experts parameters, zero_optimization.zenflow",
        ),
    ],
)
def test_settings_that_the_own_reducer_does_not_know_are_named(
    changes: dict[str, object], found: str
) -> None:
    """One optimizer, with one thing that it cannot have; without that it is accepted."""
    usual = {"ipg_buckets": {"float16": None}, "bit16_groups": [], "sequence_parallel_size": 1}
    OWN.check_optimizer(SimpleNamespace(**usual))

    with pytest.raises(UnsupportedReducerError) as caught:
        OWN.check_optimizer(SimpleNamespace(**{**usual, **changes}))

    assert (caught.value.reducer, caught.value.found) == ("own", found)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"managed_gradient_accumulation": False}, "managed_gradient_accumulation: false"),
        ({"compile_config": SimpleNamespace(deepcompile=True)}, "compile.deepcompile: true"),
    ],
)
def test_an_engine_s_settings_are_named(config: dict[str, object], found: str) -> None:
    """Those that its optimizer does not know."""
    OWN.check_engine(
        SimpleNamespace(optimizer=object(), _config=SimpleNamespace()), is_taken_over=True
    )

    with pytest.raises(UnsupportedReducerError) as caught:
        OWN.check_engine(
            SimpleNamespace(optimizer=object(), _config=SimpleNamespace(**config)),
            is_taken_over=True,
        )

    assert caught.value.found == found


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize("reducer", ["repair", "own"])
def test_the_same_engine_trains_where_it_is_supported(reducer: str) -> None:
    """The twin differs in the stage alone."""
    status, text = initialize(reducer, {"stage": 2})

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
    REPAIR.check_release(release, Reducer)


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
        REPAIR.check_release(release, owner)

    assert (caught.value.reducer, caught.value.found) == ("repair", found)
