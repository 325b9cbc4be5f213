"""Checks of the options of the reducer and the optimizer, each with the value that was found."""

from __future__ import annotations

import math

import torch

from streamguard.errors import UsageError

# They look at whole tensors, or at more than the element that they change.
_WHOLE_TENSORS = ("Adafactor", "LBFGS", "Lamb", "LARS", "Muon", "Shampoo", "SparseAdam")


def check_stage(value: object) -> None:
    """Refuse anything but 1 and 2."""
    if type(value) is not int or value not in (1, 2):
        raise UsageError(f"stage={value!r}: expected 1 or 2")


def check_count(name: str, value: object) -> None:
    """Refuse anything but a whole number from 1 on."""
    if type(value) is not int or value < 1:
        raise UsageError(f"{name}={value!r}: expected a whole number, at least 1")


def check_positive(name: str, value: object) -> None:
    """Refuse anything but a positive, finite number."""
    if not _is_number(value) or not 0 < value < math.inf:  # type: ignore[operator]  # it is one
        raise UsageError(f"{name}={value!r}: expected a positive number")


def check_dtype(name: str, value: object) -> None:
    """Refuse anything but a floating dtype or None."""
    if value is None or (isinstance(value, torch.dtype) and value.is_floating_point):
        return
    raise UsageError(f"{name}={value!r}: expected a floating dtype, such as torch.float32")


def check_optimizer(value: object) -> None:
    """Refuse anything but a class of torch optimizers that work element by element."""
    if not (isinstance(value, type) and issubclass(value, torch.optim.Optimizer)):
        raise UsageError(
            f"optimizer_class={value!r}: expected a class, such as torch.optim.AdamW; its options "
            "go to ZeroOptimizer"
        )
    if any(name.lower() in value.__name__.lower() for name in _WHOLE_TENSORS):
        raise UsageError(
            f"{value.__name__} looks at whole tensors, and a rank has ranges of them; expected an "
            "optimizer that works element by element, such as AdamW"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
