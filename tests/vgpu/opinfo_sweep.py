"""Every operator torch describes (OpInfo), on the virtual GPU against the CPU.

Takes minutes, so it is not collected by name: `pytest tests/vgpu/opinfo_sweep.py -m long`. In a
process on the virtual GPU `main()` does the sweep and prints one JSON line for each operator that
differs. Needs the package expecttest, which torch's own test tables import.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.vgpu.values_program import start

SAMPLES = 3

# Operators whose result is not comparable with the CPU's, and why.
NOT_COMPARABLE = {
    "random": {
        "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
        "pca_lowrank", "rand_like", "randint", "randint_like", "randn", "randn_like",
        "svd_lowrank", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout",
        "nn.functional.dropout2d", "nn.functional.dropout3d",
        "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d",
        "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward",
        "nn.functional.rrelu", "nn.functional.scaled_dot_product_attention",
    },
    "memory that is never set": {
        "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
        "new_empty_strided", "resize_", "resize_as_",
    },
    "reads the storage around its input, which the copy to the device does not have": {
        "as_strided",
    },
    "another gradient for each choice of eigenvectors": {"linalg.eig"},
}  # fmt: skip

# What the device refuses, as a real one does.
REFUSALS = (
    "with arguments from the 'CUDA' backend",
    "with arguments from the 'SparseCsrCUDA' backend",
    "tensor_indices_or_sections to be on cpu",
)

# Differences that are understood and stay: the device's kernel returns statistics in evaluation
# that the CPU's leaves empty; nothing reads them.
KNOWN_DIFFERENCES = {"native_batch_norm", "_native_batch_norm_legit"}


def sweep() -> Iterator[dict[str, str]]:
    """Yield one record for each operator and direction that differs from the CPU."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    left_out = set().union(*NOT_COMPARABLE.values())
    for op in op_db:
        if op.name in left_out or torch.float32 not in op.dtypes:
            continue
        label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        for direction, check in (("forward", _forward), ("in place", _in_place), ("grad", _grad)):
            reason = _first_failure(op, check)
            if reason is not None:
                yield {"op": label, "direction": direction, "reason": reason}


def _first_failure(op: Any, check: Callable[[Any, Any], None]) -> str | None:
    import torch

    torch.manual_seed(0)
    try:
        samples = list(
            itertools.islice(
                op.sample_inputs("cpu", torch.float32, requires_grad=check is _grad), SAMPLES
            )
        )
    except Exception as error:  # the table itself cannot make samples here
        return f"no samples: {error}"[:200]
    for number, sample in enumerate(samples):
        try:
            check(op, sample)
        except Exception as error:
            if any(refusal in str(error) for refusal in REFUSALS):
                continue
            return f"sample {number}: {type(error).__name__}: {error}".replace("\n", " ")[:300]
    return None


def _forward(op: Any, sample: Any) -> None:
    expected = _run_or_skip(op, sample)
    if expected is None:
        return
    _assert_same(op(*_on_device(sample)[0], **_on_device(sample)[1]), expected[0])


def _in_place(op: Any, sample: Any) -> None:
    function = op.inplace_variant
    if function is None or not hasattr(sample.input, "clone"):
        return
    args, kwargs = _on_device(sample)
    try:
        expected = function(sample.input.clone(), *sample.args, **sample.kwargs)
    except Exception:  # the sample is not one for the in-place form
        return
    _assert_same(function(args[0].clone(), *args[1:], **kwargs), expected)


def _grad(op: Any, sample: Any) -> None:
    if not op.supports_autograd:
        return
    expected = _run_or_skip(op, sample)
    if expected is None:
        return
    args, kwargs = _on_device(sample)
    try:
        expected_grads = _gradients(expected[0], [sample.input, *sample.args, sample.kwargs])
    except NotImplementedError:  # not on the CPU
        return
    grads = _gradients(op(*args, **kwargs), [*args, kwargs])
    _assert_same(grads, expected_grads)


def _run_or_skip(op: Any, sample: Any) -> tuple[Any] | None:
    try:
        return (op(sample.input, *sample.args, **sample.kwargs),)
    except Exception:  # not a sample that the CPU takes
        return None


def _gradients(output: Any, inputs: list[Any]) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    def differentiable(tree: Any) -> list[Any]:
        return [
            leaf
            for leaf in tree_leaves(tree)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        ]

    outputs, leaves = differentiable(output), differentiable(inputs)
    if not outputs or not leaves:
        return []
    weights = [torch.ones_like(tensor) for tensor in outputs]
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def _on_device(sample: Any) -> tuple[list[Any], dict[str, Any]]:
    import torch
    from torch.utils._pytree import tree_map

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            moved = value.detach().to("cuda")
            return moved.requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return "cuda"
        return value

    return [tree_map(move, item) for item in (sample.input, *sample.args)], tree_map(
        move, sample.kwargs
    )


def _assert_same(actual: Any, expected: Any) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    torch.cuda.synchronize()
    actual_leaves, expected_leaves = tree_leaves(actual), tree_leaves(expected)
    assert len(actual_leaves) == len(expected_leaves), "other number of results"
    for one, other in zip(actual_leaves, expected_leaves, strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other or one != one, f"{one} instead of {other}"
            continue
        torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-5, equal_nan=True)


def main() -> None:
    """Sweep, and print what differs and what was not computed."""
    warnings.filterwarnings("ignore")
    from streamguard.vgpu import values

    for record in sweep():
        print(json.dumps(record), flush=True)
    for name, calls in values.coverage().not_computed.items():
        print(json.dumps({"op": name, "direction": "not computed", "reason": f"{calls} calls"}))


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_every_operator_gives_the_cpus_values(schedule: str) -> None:
    """Whatever torch can describe is the same on both devices, but for the listed differences."""
    pytest.importorskip("expecttest")

    run = start(
        """
        from tests.vgpu import opinfo_sweep
        opinfo_sweep.main()
        """,
        schedule=schedule,
    )

    assert run.returncode == 0, run.stderr[-2000:]
    records = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    unexpected = [record for record in records if record["op"] not in KNOWN_DIFFERENCES]
    assert unexpected == []
