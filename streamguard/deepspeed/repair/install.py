"""Installs the repair when the program imports DeepSpeed.

Methods of `DeepSpeedZeroOptimizer` that every release from 0.9.5 on has are wrapped. They call the
original ones with the same arguments: what is reduced, and the results, stay DeepSpeed's.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from streamguard.deepspeed import global_norm
from streamguard.deepspeed.repair import buckets
from streamguard.deepspeed.repair.bucket_order import BucketOrder
from streamguard.deepspeed.supported import REPAIR
from streamguard.deepspeed.take_over import Wrapper, take_over
from streamguard.patching import Method, Undo

if TYPE_CHECKING:
    import torch

_order_of: weakref.WeakKeyDictionary[object, BucketOrder] = weakref.WeakKeyDictionary()


def register_import_hooks() -> Undo:
    """Repair the optimizers of every engine that is made from now on.

    Returns:
        Undo: restores every wrapped method and forgets the waiting hooks.
    """
    return take_over(REPAIR, _WRAPPERS, begin=_repair, is_taken_over=is_repaired)


def is_repaired(optimizer: object) -> bool:
    """Whether this optimizer reduces its gradients with the missing order added."""
    return optimizer in _order_of


def _repair(optimizer: object) -> None:
    _order_of[optimizer] = BucketOrder()
    global_norm.norm_once(optimizer)


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


_WRAPPERS: Mapping[str, Wrapper] = {
    "average_tensor": _ordering_reduction,
    "reduce_independent_p_g_buckets_and_remove_grads": _ordering_fill,
    "reduce_ipg_grads": _noting_reductions,
    **global_norm.WRAPPERS,
}
