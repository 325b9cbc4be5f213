"""Installs the repair when the program imports DeepSpeed.

Five methods of `DeepSpeedZeroOptimizer` that every release from 0.9.5 on has are wrapped. They call
the original ones with the same arguments: what is reduced, and the results, stay DeepSpeed's.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from streamguard.deepspeed.repair import buckets, global_norm, supported
from streamguard.deepspeed.repair.bucket_order import BucketOrder
from streamguard.deepspeed.repair.global_norm import GlobalNorm
from streamguard.import_hooks import after_import
from streamguard.patching import Method, Undo, wrap_method

if TYPE_CHECKING:
    import torch

_order_of: weakref.WeakKeyDictionary[object, BucketOrder] = weakref.WeakKeyDictionary()
_norm_of: weakref.WeakKeyDictionary[object, GlobalNorm] = weakref.WeakKeyDictionary()


def register_import_hooks() -> Undo:
    """Repair the optimizers of every engine that is made from now on.

    Returns:
        Undo: restores every wrapped method and forgets the waiting hooks.
    """
    undo: list[Undo] = []

    def patch_optimizer(module: ModuleType) -> None:
        import deepspeed

        owner = module.DeepSpeedZeroOptimizer
        supported.check_release(deepspeed.__version__, owner)
        for name, wrapper in _WRAPPERS.items():
            undo.append(wrap_method(owner, name, wrapper))

    def patch_engine(module: ModuleType) -> None:
        undo.append(wrap_method(module.DeepSpeedEngine, "__init__", _checking_engine))

    undo.append(after_import("deepspeed.runtime.zero.stage_1_and_2", patch_optimizer))
    undo.append(after_import("deepspeed.runtime.engine", patch_engine))

    def undo_all() -> None:
        while undo:
            undo.pop()()

    return undo_all


def is_repaired(optimizer: object) -> bool:
    """Whether this optimizer reduces its gradients with the missing order added."""
    return optimizer in _order_of


def _repairing(original: Method) -> Method:
    """Wrap `DeepSpeedZeroOptimizer.__init__`."""

    def wrapper(self: object, *arguments: object, **options: object) -> None:
        original(self, *arguments, **options)
        supported.check_optimizer(self)
        _order_of[self] = BucketOrder()
        _norm_of[self] = GlobalNorm()

    return wrapper


def _checking_engine(original: Method) -> Method:
    """Wrap `DeepSpeedEngine.__init__`."""

    def wrapper(self: object, *arguments: object, **options: object) -> None:
        original(self, *arguments, **options)
        supported.check_engine(self, is_repaired(getattr(self, "optimizer", None)))

    return wrapper


def _ordering_fill(original: Method) -> Method:
    """Wrap `reduce_independent_p_g_buckets_and_remove_grads(self, param, i)`."""

    def wrapper(self: buckets.Optimizer, param: torch.Tensor, *arguments: object) -> object:
        if not self.contiguous_gradients:
            # No buckets: DeepSpeed synchronises the device before each reduction.
            return original(self, param, *arguments)
        order = _order_of[self]
        order.before_fill(self, param)
        result = original(self, param, *arguments)
        order.after_fill(self, param)
        return result

    return wrapper


def _ordering_reduction(original: Method) -> Method:
    """Wrap `average_tensor(self, tensor)`, from 0.17.2 on `(self, tensor, dtype)`."""

    def wrapper(self: buckets.Optimizer, tensor: torch.Tensor, *dtype: Hashable) -> object:
        _order_of[self].before_reduction(self, tensor, dtype[0] if dtype else None)
        return original(self, tensor, *dtype)

    return wrapper


def _noting_reductions(original: Method) -> Method:
    """Wrap `reduce_ipg_grads(self)`, from 0.18 on `(self, comm_dtype=None)`."""

    def wrapper(self: buckets.Optimizer, *arguments: object, **options: object) -> object:
        before = buckets.buckets_of(self)
        result = original(self, *arguments, **options)
        if self.contiguous_gradients:
            _order_of[self].after_reductions(self, before)
        return result

    return wrapper


def _asking_once(original: Method) -> Method:
    """Wrap `scaled_global_norm(self, norm_type=2)`."""

    def wrapper(self: object, *arguments: object, **options: object) -> object:
        return _norm_of[self].of_all_groups(lambda: original(self, *arguments, **options))

    return wrapper


def _answering_once(original: Method) -> Method:
    """Wrap `get_grad_norm_direct(self, gradients, params, norm_type=2)`."""

    def wrapper(
        self: global_norm.Optimizer,
        gradients: Sequence[torch.Tensor],
        params: Sequence[torch.Tensor],
        *norm_type: object,
        **options: object,
    ) -> object:
        norm = _norm_of[self]
        if not norm.is_asked:
            return original(self, gradients, params, *norm_type, **options)
        return norm.of_group(
            lambda: original(
                self, *global_norm.gradients_of_all_groups(self), *norm_type, **options
            )
        )

    return wrapper


_WRAPPERS: dict[str, Callable[[Method], Method]] = {
    "__init__": _repairing,
    "average_tensor": _ordering_reduction,
    "get_grad_norm_direct": _answering_once,
    "reduce_independent_p_g_buckets_and_remove_grads": _ordering_fill,
    "reduce_ipg_grads": _noting_reductions,
    "scaled_global_norm": _asking_once,
}
