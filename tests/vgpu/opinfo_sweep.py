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

# Operators that differ, and why: each of them does, and no other.
DIFFERENT = {
    # The CPU leaves them empty; nothing reads them.
    "statistics in evaluation, which the device's kernel returns": {
        "native_batch_norm", "_native_batch_norm_legit",
    },
}  # fmt: skip

# Their result is memory that is never set: only its type, shape and strides can be compared.
UNSET = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip

# What the device refuses, as a real one does.
REFUSALS = (
    "with arguments from the 'CUDA' backend",
    "with arguments from the 'SparseCsrCUDA' backend",
    "tensor_indices_or_sections to be on cpu",
)


def sweep(counts: Counter[str], not_compared: set[str]) -> Iterator[dict[str, str]]:
    """Yield one record for each check that differs from the CPU; count all and the equal ones.

    Names in `not_compared` the operators of which no number was compared in any direction.

    Operators in UNSET are checked and not counted: no number of theirs is compared.
    """
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    compared_names = set()
    for op in op_db:
        not_compared.add(op.name)
        if torch.float32 not in op.dtypes:
            continue
        label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        for direction, check in (("forward", _forward), ("in place", _in_place), ("grad", _grad)):
            reason, compared = _first_failure(op, check)
            if reason is not None:
                yield {"op": op.name, "label": label, "direction": direction, "reason": reason}
            if op.name not in UNSET and (reason is not None or compared):
                counts[f"{direction} checks"] += 1
                counts[f"{direction} equal"] += reason is None
                compared_names.add(op.name)
    not_compared -= compared_names


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
    args, kwargs = _on_device(sample)
    outcome = _on_both(
        lambda: op(*args, **kwargs), lambda: op(sample.input, *sample.args, **sample.kwargs)
    )
    if outcome is None:
        return False
    _assert_same(*outcome, with_values=op.name not in UNSET)
    return True


def _in_place(op: Any, sample: Any) -> bool:
    function = op.inplace_variant
    if function is None or not hasattr(sample.input, "clone"):
        return False
    args, kwargs = _on_device(sample)
    outcome = _on_both(
        lambda: function(args[0].clone(), *args[1:], **kwargs),
        lambda: function(sample.input.clone(), *sample.args, **sample.kwargs),
    )
    if outcome is None:
        return False
    _assert_same(*outcome)
    return True


def _grad(op: Any, sample: Any) -> bool:
    if not op.supports_autograd:
        return False
    args, kwargs = _on_device(sample)

    def gradients(inputs: list[Any], named: dict[str, Any]) -> list[Any]:
        # Only what an operator defines is differentiated, such as the size of an eigenvector.
        output = sample.output_process_fn_grad(op(*inputs, **named))
        return _gradients(output, [*inputs, named])

    outcome = _on_both(
        lambda: gradients(args, kwargs),
        lambda: gradients([sample.input, *sample.args], sample.kwargs),
    )
    if outcome is None:
        return False
    _assert_same(*outcome)
    return bool(outcome[1])


def _on_both(on_device: Callable[[], Any], on_cpu: Callable[[], Any]) -> tuple[Any, Any] | None:
    """Both results, with the same random numbers; none if the CPU does not take the sample."""
    from tests.vgpu.opinfo_random import DeviceSeeds, RandomOpsMismatchError, SeedsOnCpu

    seeds = DeviceSeeds()
    refusal = None
    try:
        with seeds:
            actual = on_device()
    except Exception as error:
        refusal = error
    try:
        with SeedsOnCpu(seeds.found):
            expected = on_cpu()
    except RandomOpsMismatchError as other:
        raise refusal or other from None
    except Exception:  # not a sample that the CPU takes
        return None
    if refusal is not None:
        raise refusal
    return actual, expected


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
            return _moved(value.detach()).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return "cuda"
        return value

    return [tree_map(move, item) for item in (sample.input, *sample.args)], tree_map(
        move, sample.kwargs
    )


def _moved(tensor: Any) -> Any:
    """A copy on the device with the same strides, in a copy of the whole storage."""
    import torch

    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor.to("cuda")
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return whole.to("cuda").as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _assert_same(actual: Any, expected: Any, *, with_values: bool = True) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    torch.cuda.synchronize()
    actual_leaves, expected_leaves = tree_leaves(actual), tree_leaves(expected)
    assert len(actual_leaves) == len(expected_leaves), "other number of results"
    for one, other in zip(actual_leaves, expected_leaves, strict=True):
        if not isinstance(other, torch.Tensor):
            assert one == other or one != one, f"{one} instead of {other}"
        elif with_values:
            torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:
            actual_layout = (one.dtype, one.size(), one.stride())
            assert actual_layout == (other.dtype, other.size(), other.stride())


def main() -> None:
    """Sweep, and print what differs, what was not computed, and the counts."""
    warnings.filterwarnings("ignore")
    from streamguard.vgpu import values

    counts: Counter[str] = Counter()
    not_compared: set[str] = set()
    for record in sweep(counts, not_compared):
        print(json.dumps(record), flush=True)
    end = {"counts": counts, "not compared": sorted(not_compared)}
    print(json.dumps(end | {"not computed": dict(values.coverage().not_computed)}))
