"""Installs the own reducer in DeepSpeed's optimizer when the program imports DeepSpeed.

DeepSpeed keeps its hooks, partitions, step, loss scale and checkpoints. The methods between a
gradient's hook and `averaged_gradients` are replaced, with what they reduce in.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from streamguard.deepspeed import global_norm
from streamguard.deepspeed.own import partition_reducer
from streamguard.deepspeed.own.partition_reducer import FlatGradients, PartitionReducer
from streamguard.deepspeed.supported import OWN
from streamguard.deepspeed.take_over import Wrapper, take_over
from streamguard.patching import Method, Undo

if TYPE_CHECKING:
    from torch.nn import Parameter

_reducer_of: weakref.WeakKeyDictionary[object, PartitionReducer] = weakref.WeakKeyDictionary()


class _Optimizer(partition_reducer.Optimizer, Protocol):
    micro_step_id: int
    ready_for_gradients: bool
    averaged_gradients: dict[int, FlatGradients]
    _epilogue_ran_this_backward: bool

    def _clear_param_grad_only(self) -> None: ...


def register_import_hooks() -> Undo:
    """Reduce the gradients of every engine that is made from now on.

    Returns:
        Undo: restores every wrapped method and forgets the waiting hooks.
    """
    return take_over(OWN, _WRAPPERS, begin=_begin, is_taken_over=is_own)


def is_own(optimizer: object) -> bool:
    """Whether this optimizer's gradients are reduced by the own reducer."""
    return optimizer in _reducer_of


def reducer_of(optimizer: object) -> PartitionReducer:
    """Return what reduces the gradients of an optimizer for which `is_own` holds."""
    return _reducer_of[optimizer]


def _begin(optimizer: object) -> None:
    _reducer_of[optimizer] = PartitionReducer(cast(_Optimizer, optimizer))
    global_norm.norm_once(optimizer)


def _without_buffers(_: Method) -> Method:
    """Replace `setup_buckets(self)`, which allocates the buckets of a backward."""

    def wrapper(self: _Optimizer) -> None:
        if not self.ready_for_gradients:
            self.micro_step_id += 1
            self.ready_for_gradients = True

    return wrapper


def _arriving(_: Method) -> Method:
    """Replace `reduce_independent_p_g_buckets_and_remove_grads(self, param, i)`."""

    def wrapper(self: _Optimizer, param: Parameter, *_: object) -> None:
        # A tiled computation makes a gradient in several backwards and says when it is complete.
        if param.numel() and getattr(param, "ds_grad_is_ready", True):
            _reducer_of[self].arrive(param)

    return wrapper


def _finishing(_: Method) -> Method:
    """Replace `independent_gradient_partition_epilogue(self)`, which ends every reduction."""

    def wrapper(self: _Optimizer) -> None:
        reducer = _reducer_of[self]
        reducer.finish()
        if _is_boundary(self):
            self.averaged_gradients.update(reducer.averaged_gradients())
        self.ready_for_gradients = False
        self._clear_param_grad_only()
        self._epilogue_ran_this_backward = True

    return wrapper


def _reducing_without_buffers(original: Method) -> Method:
    """Wrap `reduce_gradients(self, pipeline_parallel=False)`, which allocates for pipelines."""

    def wrapper(self: _Optimizer, pipeline_parallel: bool = False) -> object:
        return original(self)

    return wrapper


def _stepping(original: Method) -> Method:
    """Wrap `step(self, closure=None)`."""

    def wrapper(self: _Optimizer, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        _reducer_of[self].after_step()
        return result

    return wrapper


def _is_boundary(optimizer: object) -> bool:
    """Whether a step follows this backward; a method from 0.19.3 on."""
    found = optimizer.is_gradient_accumulation_boundary  # type: ignore[attr-defined]  # DeepSpeed's
    return bool(found() if callable(found) else found)


_WRAPPERS: Mapping[str, Wrapper] = {
    "independent_gradient_partition_epilogue": _finishing,
    "reduce_gradients": _reducing_without_buffers,
    "reduce_independent_p_g_buckets_and_remove_grads": _arriving,
    "setup_buckets": _without_buffers,
    "step": _stepping,
    **global_norm.WRAPPERS,
}
