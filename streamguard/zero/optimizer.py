"""A torch optimizer over gradients and states that are divided among the ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as distributed
from torch.nn import Module

from streamguard.errors import UsageError
from streamguard.zero.loss_scale import LossScale
from streamguard.zero.norm import clip_factor, global_norm
from streamguard.zero.options import check_dtype, check_optimizer, check_positive
from streamguard.zero.parameters import FlatParameters
from streamguard.zero.reducer import (
    DEFAULT_BUCKET_BYTES,
    DEFAULT_RING_SIZE,
    GradientReducer,
)
from streamguard.zero.saving import SavedOptimizer

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup
    from torch.nn import Parameter

    from streamguard.zero.hand_over import Edge

ParameterGroups = Iterable[dict[str, object]]


class ZeroOptimizer(SavedOptimizer):
    """ZeRO-1 or ZeRO-2 around a torch optimizer that works element by element (SGD, AdamW, …).

    Use it as any torch optimizer; `backward()` reduces, `step()` updates this rank's part and
    gathers all parts. Every rank calls `backward()` and `step()` equally often. Gradients are
    not in `param.grad`; between `reducer.wait_for_shards()` and `step()` this rank's part of them
    is in `reducer.shards.view(fragment)` of `reducer.fragments`.

    The host waits for the device only where a value is read: with a loss scale that can overflow
    (once a step), and where the caller reads `norm`.

    Args:
        model_or_params: A module, parameters or parameter groups, in order of use.
        optimizer_class: Class of the optimizer that updates this rank's part.
        order_of_use: A module or parameters, in order of use, where groups (such as weights and
            biases) have them in another one. Without it buckets of one group wait for the other
            group's gradients: right, but late and in `param.grad`.
        max_norm: Gradients are clipped to this 2-norm over all ranks.
        norm_group: Ranks whose gradients make up the norm; with model parallelism all of them.
        is_counted: Whether this rank counts a parameter in the norm; for parameters that several
            model-parallel ranks hold, true on one of them. All are counted if None.
        loss_scale: Scale for float16: a number, or a `LossScale`. Steps with an overflow on any
            rank are skipped on all.
        overlap_gather: The next forward starts before all parameters are there, each submodule
            waits for its own. Parameters read outside their module's forward need
            `wait_for_parameters()` first. Needs a module as `model_or_params`.
        find_unused: `backward()` of this object looks up the parameters that the loss does not
            depend on; their buckets then need not wait for the end of backward.
        master_dtype: Dtype in which parts are kept and updated.
        process_group, process_group_of, stage, reduce_dtype, bucket_bytes, ring_size, predivide,
            overlap, without_edge: See `GradientReducer`.
        **options: Options of `optimizer_class`.

    Raises:
        UsageError: parameters or options do not fit together.
    """

    def __init__(
        self,
        model_or_params: Module | Iterable[Parameter] | ParameterGroups,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        order_of_use: Module | Iterable[Parameter] | None = None,
        process_group: ProcessGroup | None = None,
        process_group_of: Callable[[Parameter], ProcessGroup | None] | None = None,
        norm_group: ProcessGroup | None = None,
        is_counted: Callable[[Parameter], bool] | None = None,
        stage: int = 2,
        reduce_dtype: torch.dtype | None = None,
        master_dtype: torch.dtype = torch.float32,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        ring_size: int = DEFAULT_RING_SIZE,
        predivide: float = 1.0,
        overlap: bool = True,
        overlap_gather: bool = False,
        find_unused: bool = False,
        max_norm: float | None = None,
        loss_scale: float | LossScale | None = None,
        without_edge: Edge | None = None,
        **options: object,
    ) -> None:
        if overlap_gather and not isinstance(model_or_params, Module):
            raise UsageError("overlap_gather waits in the modules' forward; give the module itself")
        check_optimizer(optimizer_class)
        check_dtype("master_dtype", master_dtype)
        if max_norm is not None:
            check_positive("max_norm", max_norm)
        if loss_scale is not None and not isinstance(loss_scale, LossScale):
            check_positive("loss_scale", loss_scale)
        groups = _groups_of(model_or_params)
        super().__init__(groups, dict(options))
        given = [parameter for group in self.param_groups for parameter in group["params"]]
        self.reducer = GradientReducer(
            given if order_of_use is None else _ordered(given, order_of_use),
            process_group=process_group,
            process_group_of=process_group_of,
            stage=stage,
            reduce_dtype=reduce_dtype,
            shard_dtype=master_dtype,
            bucket_bytes=bucket_bytes,
            ring_size=ring_size,
            predivide=predivide,
            overlap=overlap,
            without_edge=without_edge,
        )
        self.flat = FlatParameters(self.reducer, master_dtype=master_dtype)
        self.loss_scale = (
            LossScale(loss_scale, None) if isinstance(loss_scale, int | float) else loss_scale
        )
        self.norm: Tensor | None = None
        self.skipped_steps = 0
        self._max_norm = max_norm
        self._norm_group = norm_group or process_group or distributed.group.WORLD
        self._overlap_gather = overlap_gather
        self._find_unused = find_unused
        self._gradients = {
            fragment: self.reducer.shards.view(fragment) for fragment in self.reducer.fragments
        }
        self._counted = [
            gradient
            for fragment, gradient in self._gradients.items()
            if is_counted is None or is_counted(self.reducer.parameters[fragment.parameter])
        ]
        for fragment, master in self.flat.masters.items():
            master.grad = self._gradients[fragment]
        self.inner = optimizer_class(self._inner_groups(), **options)
        for group, complete in zip(self.param_groups, self.inner.param_groups, strict=True):
            for name, value in complete.items():
                group.setdefault(name, value)  # the class's own defaults, for schedulers and states
        if overlap_gather:
            self.flat.wait_in_forward(cast(Module, model_or_params))

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not followed
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update this rank's part from the reduced gradients and gather the parameters.

        Runs on the current stream; afterwards that stream may read the parameters, unless
        `overlap_gather` leaves it to the modules.

        Args:
            closure: Computes the loss and calls `backward()`.

        Returns:
            What `closure` returned.

        Raises:
            UsageError: no gradient was reduced since the last step, a backward did not end, or a
                parameter that was frozen at the start needs a gradient now.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._check_frozen()
        self.reducer.wait_for_shards()
        if self._scale_gradients():
            self._copy_options()
            self._drop_made_states()
            self.inner.step()
            self.flat.write_own_parts()
            self.reducer.clear()
            self.flat.gather()
            if not self._overlap_gather:
                self.flat.before_read_all()
        else:
            self.skipped_steps += 1
            self.reducer.clear()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients since the last step; with `set_to_none` or without.

        Those of a backward before this optimizer was made, which are in `param.grad`, too.

        Raises:
            UsageError: a backward did not end; `abandon()` is for that.
        """
        self.reducer.clear()
        for parameter in (*self.reducer.parameters, *self.reducer.frozen):
            parameter.grad = None

    def backward(self, loss: Tensor) -> None:
        """Run backward of the loss, scaled if there is a loss scale."""
        scaled = self.scale(loss)
        if self._find_unused:
            self.reducer.expect(scaled)
        scaled.backward()

    def scale(self, loss: Tensor) -> Tensor:
        """Multiply a loss by the loss scale."""
        return loss if self.loss_scale is None else loss * self.loss_scale.scale

    def no_sync(self) -> AbstractContextManager[None]:
        """Let every `backward()` inside only accumulate on this rank."""
        return self.reducer.no_sync()

    def abandon(self, *, backwards: int = 1) -> None:
        """Give this step up, after an exception in one rank's forward or backward.

        Every rank calls it in place of `step()`; nothing of the step's gradients remains.

        Args:
            backwards: How often a step calls `backward()` outside `no_sync()`.

        Raises:
            UsageError: this rank has begun more of them.
        """
        self.reducer.abandon(backwards=backwards)

    def close(self) -> None:
        """Let go of the parameters, which keep their values: another optimizer may take them."""
        self.reducer.close()
        self.flat.stop_waiting()

    def wait_for_parameters(self) -> None:
        """Let the current stream read all parameters; only `overlap_gather` needs it."""
        self.flat.before_read_all()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, which only the constructor can: the layout is made once.

        Raises:
            UsageError: the optimizer is complete.
        """
        if hasattr(self, "inner"):
            raise UsageError("parameters are laid out once; give all groups to the constructor")
        super().add_param_group(param_group)

    def _inner_groups(self) -> list[dict[str, object]]:
        index_of = {id(p): index for index, p in enumerate(self.reducer.parameters)}
        groups = []
        for group in self.param_groups:
            members = {index_of[id(p)] for p in group["params"] if id(p) in index_of}
            masters = [m for f, m in self.flat.masters.items() if f.parameter in members]
            groups.append({**group, "params": masters})
        return groups

    def _copy_options(self) -> None:
        """Carry over what schedulers and users have changed in the groups."""
        for group, inner in zip(self.param_groups, self.inner.param_groups, strict=True):
            inner.update({name: value for name, value in group.items() if name != "params"})

    def _check_frozen(self) -> None:
        if any(parameter.requires_grad for parameter in self.reducer.frozen):
            raise UsageError(
                "a parameter that was frozen when the optimizer was made needs a gradient now; "
                "call close(), then make a new ZeroOptimizer"
            )

    def _scale_gradients(self) -> bool:
        """Undo the loss scale and clip. False if the step is to be skipped."""
        if self._max_norm is None and self.loss_scale is None:
            return True
        total = global_norm(self._counted, group=self._norm_group, device=self.reducer.device)
        factor = torch.ones_like(total.norm)
        if self.loss_scale is not None:
            factor /= self.loss_scale.scale
        self.norm = total.norm * factor
        if self._max_norm is not None:
            factor *= clip_factor(self.norm, self._max_norm)
        if self.loss_scale is not None:
            # The one value that the host waits for: whether any rank's gradients overflowed.
            overflowed = bool(total.not_finite.item())
            self.loss_scale.update(overflowed=overflowed)
            if overflowed:
                return False
        for shard in self.reducer.shards.flat:
            shard.mul_(factor)
        return True


def _ordered(given: list[Parameter], order: Module | Iterable[Parameter]) -> list[Parameter]:
    """Bring parameters into an order; those that it does not name come last."""
    named = order.parameters() if isinstance(order, Module) else order
    place = {id(parameter): index for index, parameter in enumerate(named)}
    return sorted(given, key=lambda parameter: place.get(id(parameter), len(place)))


def _groups_of(
    model_or_params: Module | Iterable[Parameter] | ParameterGroups,
) -> list[dict[str, object]] | list[Parameter]:
    if isinstance(model_or_params, Module):
        return list(model_or_params.parameters())
    return list(model_or_params)
