"""Small computations whose outcome on the virtual GPU must be the CPU's, gradients included.

A case is a function of the torch module that returns (function or nn.Module, inputs). It is made
anew for each device from the same seed; further tensors are created on the inputs' device. This
module imports no torch, so that pytest can list the cases without the virtual GPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """One computation, and the relative difference it may show; 0 means bit-equal."""

    make: Callable[[Any], tuple[Any, list[Any]]]
    tolerance: float


CASES: dict[str, Case] = {}


def case(tolerance: float = 0.0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a case under its function's name."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        CASES[make.__name__] = Case(make, tolerance)
        return make

    return register


def evaluate(one: Case, device: str) -> list[Any]:
    """Results on a device, then gradients of their squares by inputs and parameters."""
    import torch

    torch.manual_seed(0)
    function, inputs = one.make(torch)
    inputs = [tensor.detach().to(device) for tensor in inputs]
    differentiated = [tensor for tensor in inputs if tensor.is_floating_point()]
    if isinstance(function, torch.nn.Module):
        differentiated += function.to(device).parameters()
    for tensor in differentiated:
        tensor.requires_grad_()
    outputs = [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(function(*inputs))
        if isinstance(leaf, torch.Tensor)
    ]
    sums = [output.square().sum() for output in outputs if output.requires_grad]
    gradients = torch.autograd.grad(sums, differentiated, allow_unused=True) if sums else []
    return [tensor.detach().cpu() for tensor in (*outputs, *gradients) if tensor is not None]


def difference(one: Case) -> float:
    """Largest difference between the devices, relative to the CPU's values above 1."""
    import torch

    expected, actual = evaluate(one, "cpu"), evaluate(one, "cuda")
    assert [tensor.shape for tensor in expected] == [tensor.shape for tensor in actual]
    assert [tensor.dtype for tensor in expected] == [tensor.dtype for tensor in actual]
    worst = 0.0
    for wanted, found in zip(expected, actual, strict=True):
        if torch.equal(wanted, found) or wanted.numel() == 0:
            continue
        wanted, found = wanted.double(), found.double()
        same = (wanted == found) | (wanted.isnan() & found.isnan())
        distance = ((wanted - found).abs() / wanted.abs().clamp(min=1)).where(~same, 0.0)
        worst = max(worst, distance.nan_to_num(nan=float("inf")).max().item())
    return worst


def main() -> None:
    """Print one JSON object: for each case its difference, or what it raised."""
    outcomes: dict[str, float | str] = {}
    for name, one in CASES.items():
        try:
            outcomes[name] = difference(one)
        except Exception as error:  # becomes the case's outcome
            outcomes[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(outcomes))
