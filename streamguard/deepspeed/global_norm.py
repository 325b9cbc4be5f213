"""One gradient norm over all parameter groups, with the collectives of one.

DeepSpeed all-reduces the norm once for each parameter group that a rank has. Pipeline stages whose
numbers of groups differ then wait for each other for ever (issue 1522): a stage with nothing but
an embedding has no group of biases and norms.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import torch

from streamguard.patching import Method


class Optimizer(Protocol):
    """What the norm needs of `DeepSpeedZeroOptimizer`."""

    averaged_gradients: Mapping[int, Sequence[torch.Tensor]]
    params_in_partition: Sequence[Sequence[torch.Tensor]]
    bit16_groups: Sequence[Sequence[torch.Tensor]]


class GlobalNorm:
    """Answers for the groups of one optimizer while their norms are being asked for.

    Attributes:
        is_asked: The norms of all groups are being combined right now.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._zero: object = None

    def of_all_groups(self, combine: Callable[[], object]) -> object:
        """Run `scaled_global_norm`, which asks for each group's norm and combines them."""
        self.is_asked, self._zero = True, None
        try:
            return combine()
        finally:
            self.is_asked = False

    def of_group(self, norm_of_everything: Callable[[], object]) -> object:
        """Answer for one group: the first one gives the norm of all, the others add nothing."""
        if self._zero is not None:
            return self._zero
        norm = norm_of_everything()
        # 0.9.5 has numbers here, later releases tensors.
        self._zero = norm.new_zeros(()) if isinstance(norm, torch.Tensor) else 0.0
        return norm


_norm_of: weakref.WeakKeyDictionary[object, GlobalNorm] = weakref.WeakKeyDictionary()


def norm_once(optimizer: object) -> None:
    """From now on let this optimizer, whose class has `WRAPPERS`, ask for one norm per step."""
    _norm_of[optimizer] = GlobalNorm()


def gradients_of_all_groups(
    optimizer: Optimizer,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return this rank's averaged gradients and their parameters, one by one, of every group."""
    gradients: list[torch.Tensor] = []
    parameters: list[torch.Tensor] = []
    for group, _ in enumerate(optimizer.bit16_groups):
        # Padding has no parameter: 0.19 marks it, earlier releases have it at the end only.
        real = (g for g in optimizer.averaged_gradients[group] if not hasattr(g, "_zero_padding"))
        for gradient, parameter in zip(real, optimizer.params_in_partition[group], strict=False):
            gradients.append(gradient)
            parameters.append(parameter)
    return gradients, parameters


def _asking_once(original: Method) -> Method:
    """Wrap `scaled_global_norm(self, norm_type=2)`."""

    def wrapper(self: object, *arguments: object, **options: object) -> object:
        return _norm_of[self].of_all_groups(lambda: original(self, *arguments, **options))

    return wrapper


def _answering_once(original: Method) -> Method:
    """Wrap `get_grad_norm_direct(self, gradients, params, norm_type=2)`."""

    def wrapper(
        self: Optimizer,
        gradients: Sequence[torch.Tensor],
        params: Sequence[torch.Tensor],
        *norm_type: object,
        **options: object,
    ) -> object:
        norm = _norm_of[self]
        if not norm.is_asked:
            return original(self, gradients, params, *norm_type, **options)
        return norm.of_group(
            lambda: original(self, *gradients_of_all_groups(self), *norm_type, **options)
        )

    return wrapper


WRAPPERS: Mapping[str, Callable[[Method], Method]] = {
    "get_grad_norm_direct": _answering_once,
    "scaled_global_norm": _asking_once,
}
