"""Says which parameter's gradient lies at which bytes, while DeepSpeed fills its buckets.

Both ZeRO optimizers pass every gradient through `reduce_independent_p_g_buckets_and_remove_grads`.
It may first reduce the full bucket (`reduce_ipg_grads`), which still belongs to the old
gradients, and then copy the new one in. Hence the new name holds from the last reduction inside
the call on, or from the call's begin.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from streamguard import session
from streamguard.deepspeed import parameter_names
from streamguard.deepspeed.buffers import BufferNames
from streamguard.patching import Method

if TYPE_CHECKING:
    import torch


class GradientNames:
    """The names of one optimizer's gradients; called from the threads that run its hooks.

    Called for every gradient of every step, when nothing of it is in the processor's caches: what
    is known takes few Python calls.
    """

    def __init__(self, optimizer: object) -> None:
        import streamguard._hooks as _hooks

        self.optimizer = weakref.ref(optimizer)
        self.current_op = _hooks.current_op
        self._texts = _hooks.GradientTexts()
        self._buffers = BufferNames()
        self._newest_reduction_op = 0

    def reduction_done(self) -> None:
        """Note that what is copied into a bucket from now on is a new gradient."""
        self._newest_reduction_op = self.current_op() + 1

    def name_gradient(self, parameter: torch.Tensor, begin_op: int) -> None:
        """Name the bytes of `parameter`'s gradient, wherever the call left it."""
        optimizer = self.optimizer()
        accumulates = getattr(optimizer, "use_grad_accum_attribute", False)
        gradient = getattr(parameter, "grad_accum", None) if accumulates else None
        if accumulates and gradient is None:
            return
        since_op = max(begin_op, self._newest_reduction_op)
        if session.must_see_names() or not self._texts.name(parameter, gradient, since_op):
            self._name_slowly(parameter, gradient, since_op)

    def name_buffers(self) -> None:
        """Name buckets that are new in this backward pass, before anything is copied into them."""
        if self._buffers.name_new(self.optimizer()):
            self._texts.set_buckets(self._buffers.named())

    def _name_slowly(
        self, parameter: torch.Tensor, own: torch.Tensor | None, since_op: int
    ) -> None:
        gradient = parameter.grad if own is None else own
        if gradient is None or not gradient.is_cuda or gradient.numel() == 0:
            return
        begin = gradient.data_ptr()
        end = begin + gradient.numel() * gradient.element_size()
        name = parameter_names.name_of(parameter)
        text = f"gradient of {name or f'parameter of shape {list(parameter.shape)}'}"
        if self._buffers.around(begin) is None:
            self.name_buffers()  # made inside the call
        buffer = self._buffers.around(begin)
        if buffer is not None:
            text = f"{buffer.name}, {text}"
        session.name_region(begin, end, text, since_op=since_op)
        if name and not session.must_see_names():
            self._texts.learn(parameter, own, text)


_names_of: dict[int, GradientNames] = {}
"""By the optimizer's `id`; an entry counts while its reference leads there."""


def names_of(optimizer: object) -> GradientNames:
    """Return the record of one optimizer, made at first sight."""
    names = _names_of.get(id(optimizer))
    if names is None or names.optimizer() is not optimizer:
        names = _names_of[id(optimizer)] = GradientNames(optimizer)
        weakref.finalize(optimizer, _forget, id(optimizer), names)
    return names


def _forget(number: int, names: GradientNames) -> None:
    if _names_of.get(number) is names:
        del _names_of[number]


def naming_reduce(original: Method) -> Method:
    """Wrap `reduce_independent_p_g_buckets_and_remove_grads(self, param, ...)`."""

    def wrapper(self: object, param: torch.Tensor, *arguments: object) -> object:
        names = names_of(self)
        names.name_buffers()
        begin_op = names.current_op() + 1  # the newest op still saw the old names
        result = original(self, param, *arguments)
        names.name_gradient(param, begin_op)
        return result

    return wrapper


def noting_reduction(original: Method) -> Method:
    """Wrap `reduce_ipg_grads(self, ...)`."""

    def wrapper(self: object, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        names_of(self).reduction_done()
        return result

    return wrapper
