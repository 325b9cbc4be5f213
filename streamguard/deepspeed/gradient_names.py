"""Says which parameter's gradient lies at which bytes, while DeepSpeed fills its buckets.

Both ZeRO optimizers pass every gradient through `reduce_independent_p_g_buckets_and_remove_grads`.
It may first reduce the full bucket (`reduce_ipg_grads`), which still belongs to the old
gradients, and then copy the new one in. Hence the new name holds from the last reduction inside
the call on, or from the call's begin.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from streamguard import hooks, session
from streamguard.deepspeed import parameter_names
from streamguard.deepspeed.buffers import BufferNames
from streamguard.patching import Method

if TYPE_CHECKING:
    import torch


class GradientNames:
    """The names of one optimizer's gradients; called from the threads that run its hooks."""

    def __init__(self) -> None:
        self._buffers = BufferNames()
        self._newest_reduction_op = 0

    def reduction_done(self) -> None:
        """Note that what is copied into a bucket from now on is a new gradient."""
        self._newest_reduction_op = hooks.current_op() + 1

    def name_gradient(self, optimizer: object, parameter: torch.Tensor, begin_op: int) -> None:
        """Name the bytes of `parameter`'s gradient, wherever the call left it."""
        gradient = _gradient_of(optimizer, parameter)
        if gradient is None or not gradient.is_cuda or gradient.numel() == 0:
            return
        begin = gradient.data_ptr()
        end = begin + gradient.numel() * gradient.element_size()
        text = f"gradient of {parameter_names.name_of(parameter)}"
        buffer = self._buffers.around(begin)
        if buffer is None:
            self._buffers.name_new(optimizer)  # made inside the call
            buffer = self._buffers.around(begin)
        if buffer is not None:
            text = f"{buffer.name}, {text}"
        since_op = max(begin_op, self._newest_reduction_op)
        session.name_region(begin, end, text, since_op=since_op)

    def name_buffers(self, optimizer: object) -> None:
        """Name buckets that are new in this backward pass, before anything is copied into them."""
        self._buffers.name_new(optimizer)


_names_of: weakref.WeakKeyDictionary[object, GradientNames] = weakref.WeakKeyDictionary()


def names_of(optimizer: object) -> GradientNames:
    """Return the record of one optimizer, made at first sight."""
    names = _names_of.get(optimizer)
    if names is None:
        names = _names_of.setdefault(optimizer, GradientNames())
    return names


def naming_reduce(original: Method) -> Method:
    """Wrap `reduce_independent_p_g_buckets_and_remove_grads(self, param, ...)`."""

    def wrapper(self: object, param: torch.Tensor, *arguments: object) -> object:
        names = names_of(self)
        names.name_buffers(self)
        begin_op = hooks.current_op() + 1  # the newest op still saw the old names
        result = original(self, param, *arguments)
        names.name_gradient(self, param, begin_op)
        return result

    return wrapper


def noting_reduction(original: Method) -> Method:
    """Wrap `reduce_ipg_grads(self, ...)`."""

    def wrapper(self: object, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        names_of(self).reduction_done()
        return result

    return wrapper


def _gradient_of(optimizer: object, parameter: torch.Tensor) -> torch.Tensor | None:
    accumulates = getattr(optimizer, "use_grad_accum_attribute", False)
    return getattr(parameter, "grad_accum", None) if accumulates else parameter.grad
