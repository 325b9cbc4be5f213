"""Every operator torch describes (OpInfo), on the virtual GPU against the CPU.

In a process on the virtual GPU `main()` does the sweep and prints one JSON line for each check that
differs, and one with the counts. A check is one operator in one direction (forward, in place,
gradient) with up to three samples. Needs the package expecttest, which torch's own test tables
import.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

SAMPLES = 3

# Operators that differ, and why. All others must be equal.
DIFFERENT = {
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
    # The CPU leaves them empty; nothing reads them.
    "statistics in evaluation, which the device's kernel returns": {
        "native_batch_norm", "_native_batch_norm_legit",
    },
}  # fmt: skip

# The groups of DIFFERENT for which the CPU's result says nothing.
NOT_COMPARABLE = (
    "random",
    "memory that is never set",
    "reads the storage around its input, which the copy to the device does not have",
)

# What the device refuses, as a real one does.
REFUSALS = (
    "with arguments from the 'CUDA' backend",
    "with arguments from the 'SparseCsrCUDA' backend",
    "tensor_indices_or_sections to be on cpu",
)


def sweep(counts: Counter[str]) -> Iterator[dict[str, str]]:
    """Yield one record for each check that differs from the CPU; count all and the equal ones.

    Only operators that can be compared are counted.
    """
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    not_comparable = set().union(*(DIFFERENT[why] for why in NOT_COMPARABLE))
    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue
        label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        for direction, check in (("forward", _forward), ("in place", _in_place), ("grad", _grad)):
            reason, compared = _first_failure(op, check)
            if reason is not None:
                yield {"op": op.name, "label": label, "direction": direction, "reason": reason}
            is_comparable = op.name not in not_comparable
            if is_comparable and (reason is not None or compared):
                counts[f"{direction} checks"] += 1
                counts[f"{direction} equal"] += reason is None


def _first_failure(op: Any, check: Callable[[Any, Any], bool]) -> tuple[str | None, int]:
    """What differs first, and how many samples were compared."""
    import torch

    torch.manual_seed(0)
    try:
        samples = list(
            itertools.islice(
                op.sample_inputs("cpu", torch.float32, requires_grad=check is _grad), SAMPLES
            )
        )
    except Exception as error:  # the table itself cannot make samples here
        return f"no samples: {error}"[:200], 0
    compared = 0
    for number, sample in enumerate(samples):
        try:
            compared += check(op, sample)
        except Exception as error:
            if any(refusal in str(error) for refusal in REFUSALS):
                continue
            difference = f"sample {number}: {type(error).__name__}: {error}"
            return difference.replace("\n", " ")[:300], compared
    return None, compared


def _forward(op: Any, sample: Any) -> bool:
    expected = _run_or_skip(op, sample)
    if expected is None:
        return False
    _assert_same(op(*_on_device(sample)[0], **_on_device(sample)[1]), expected[0])
    return True


def _in_place(op: Any, sample: Any) -> bool:
    function = op.inplace_variant
    if function is None or not hasattr(sample.input, "clone"):
        return False
    args, kwargs = _on_device(sample)
    try:
        expected = function(sample.input.clone(), *sample.args, **sample.kwargs)
    except Exception:  # the sample is not one for the in-place form
        return False
    _assert_same(function(args[0].clone(), *args[1:], **kwargs), expected)
    return True


def _grad(op: Any, sample: Any) -> bool:
    if not op.supports_autograd:
        return False
    expected = _run_or_skip(op, sample)
    if expected is None:
        return False
    args, kwargs = _on_device(sample)
    try:
        expected_grads = _gradients(expected[0], [sample.input, *sample.args, sample.kwargs])
    except NotImplementedError:  # not on the CPU
        return False
    grads = _gradients(op(*args, **kwargs), [*args, kwargs])
    _assert_same(grads, expected_grads)
    return bool(expected_grads)


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
    """Sweep, and print what differs, what was not computed, and the counts."""
    warnings.filterwarnings("ignore")
    from streamguard.vgpu import values

    counts: Counter[str] = Counter()
    for record in sweep(counts):
        print(json.dumps(record), flush=True)
    print(json.dumps({"counts": counts, "not computed": dict(values.coverage().not_computed)}))
