"""The gradient reducer of ZeRO-1 and ZeRO-2, usable with any optimizer.

A hook of each parameter copies its gradient into a bucket on the stream that made it; a full bucket
is reduced on the communication stream, and this rank's part of the mean lands in its shard. Buckets
are reduced in the layout's order on every rank, whatever order gradients arrive in.

Source:
    ZeRO, Rajbhandari et al. 2020, section 5. Unlike the paper every rank owns a part of each
    bucket, so that one reduce-scatter per bucket moves (N-1)/N of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as distributed

from streamguard.errors import UsageError
from streamguard.zero import options
from streamguard.zero.autograd_graph import reachable_leaves
from streamguard.zero.collectives import reduce_scatter_in_place
from streamguard.zero.hand_over import Edge, HandOver
from streamguard.zero.layout import Bucket, Layout
from streamguard.zero.rounds import Rounds
from streamguard.zero.shards import Fragment, Shards, fragments_of
from streamguard.zero.spaces import SpaceKey, lay_out

if TYPE_CHECKING:
    from torch import Tensor
    from torch.cuda import Stream
    from torch.distributed import ProcessGroup
    from torch.nn import Parameter

DEFAULT_BUCKET_BYTES = 25 * 1024 * 1024
DEFAULT_RING_SIZE = 2


@dataclass(frozen=True, slots=True)
class _Hook:
    """Tells a reducer that the gradient of one of its parameters is there."""

    reducer: GradientReducer
    parameter: int

    def __call__(self, _: Parameter) -> None:
        self.reducer.on_gradient(self.parameter)


@dataclass(frozen=True, slots=True)
class Memory:
    """Device memory for gradients, in bytes.

    Attributes:
        slots: What gradients pass through.
        shards: This rank's part of the gradients.
        deferred_peak: Largest sum of gradients that waited because they came out of order.
    """

    slots: int
    shards: int
    deferred_peak: int


class GradientReducer:
    """Reduces gradients while backward runs.

    Every `backward()` outside `no_sync()` is a *round*: all buckets are reduced and added to the
    shards. `param.grad` is None afterwards. A parameter without a gradient counts as zero.

    Thread safety: none. Hooks run on the autograd thread while the caller is inside `backward()`.
    Streams: gradients may come from any stream. The stream that is current when `backward()` is
    called is joined by autograd with all of them, as without this class.

    Args:
        parameters: In order of use, the same on all ranks of a group, on one CUDA device. Frozen
            ones are left out, shared ones count once.
        process_group: Ranks to average over; the default group if None.
        process_group_of: Group of a parameter that has another one (experts); None: the first.
        stage: 2 keeps `ring_size` buckets, 1 keeps all.
        reduce_dtype: Dtype on the wire; each parameter's own if None.
        shard_dtype: Dtype of the shards, in which rounds add up; `reduce_dtype` if None.
        bucket_bytes: Size of a bucket on the wire.
        ring_size: Buckets of stage 2 that exist at once.
        predivide: Gradients are divided by it before the sum and multiplied after it.
        average: The result is the mean over the ranks, else the sum.
        overlap: Reduce during backward; else at its end, on the stream that is current there.
        on_reduced: Called with each bucket and its shard part, with the communication stream
            current, after the part's reduction was issued. Its reads need no further order.
        without_edge: Leaves one edge out, for the proof that it is needed.

    Raises:
        UsageError: the parameters or the options do not fit; the message says which.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        *,
        process_group: ProcessGroup | None = None,
        process_group_of: Callable[[Parameter], ProcessGroup | None] | None = None,
        stage: int = 2,
        reduce_dtype: torch.dtype | None = None,
        shard_dtype: torch.dtype | None = None,
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        ring_size: int = DEFAULT_RING_SIZE,
        predivide: float = 1.0,
        average: bool = True,
        overlap: bool = True,
        on_reduced: Callable[[Bucket, Tensor], None] | None = None,
        without_edge: Edge | None = None,
    ) -> None:
        options.check_stage(stage)
        options.check_count("ring_size", ring_size)
        options.check_count("bucket_bytes", bucket_bytes)
        options.check_positive("predivide", predivide)
        options.check_dtype("reduce_dtype", reduce_dtype)
        options.check_dtype("shard_dtype", shard_dtype)
        laid_out = lay_out(
            parameters,
            process_group=process_group or distributed.group.WORLD,
            process_group_of=process_group_of,
            reduce_dtype=reduce_dtype,
            shard_dtype=shard_dtype,
            bucket_bytes=bucket_bytes,
        )
        _check_unhooked(laid_out.parameters)
        self.parameters: tuple[Parameter, ...] = laid_out.parameters
        self.frozen: tuple[Parameter, ...] = laid_out.frozen
        self.layout: Layout = laid_out.layout
        self.spaces: tuple[SpaceKey, ...] = laid_out.keys
        self.device: torch.device = self.parameters[0].device
        self.parts: tuple[int, ...] = tuple(
            distributed.get_rank(key.process_group) for key in self.spaces
        )
        self.fragments: tuple[Fragment, ...] = fragments_of(self.layout, self.parts)
        self.shards = Shards(
            self.layout, dtypes=[key.shard_dtype for key in self.spaces], device=self.device
        )
        self._predivide = predivide
        self._average = average
        self._overlap = overlap
        self._on_reduced = on_reduced
        communication_stream = (
            torch.cuda.Stream(self.device) if overlap else torch.cuda.current_stream(self.device)
        )
        self.hand_over = HandOver(communication_stream, without=without_edge)
        self._rounds = Rounds(
            self.layout,
            self.hand_over,
            wire_dtypes=[key.reduce_dtype for key in self.spaces],
            device=self.device,
            slots=ring_size if stage == 2 and overlap else len(self.layout.buckets),
            divisor=predivide,
            gradient_of=lambda index: self.parameters[index].grad,
            drop=self._drop,
            reduce=self._reduce,
        )
        self._accumulates_only = False
        self._reduced_rounds = 0  # since the last `clear`
        self._unreachable: list[int] = []
        self._task = -1  # autograd's id of the backward that opened the round
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(_Hook(self, index))
            for index, parameter in enumerate(self.parameters)
        ]

    @property
    def communication_stream(self) -> Stream:
        """Stream of all collectives on gradients and parameters."""
        return self.hand_over.communication_stream

    @property
    def is_round_open(self) -> bool:
        """Whether a backward has begun and not ended; after an exception it stays so."""
        return self._rounds.is_open

    @property
    def rounds(self) -> int:
        """Rounds that the shards hold the sum of."""
        return self._reduced_rounds

    @property
    def memory(self) -> Memory:
        """Device memory for gradients."""
        return Memory(
            self._rounds.slot_bytes, self.shards.size_bytes, self._rounds.deferred_peak_bytes
        )

    def expect(self, loss: Tensor) -> None:
        """Say which loss the next `backward()` starts from, so that unused parameters are known.

        Without it a bucket with an unused parameter is full only when backward has ended, and
        later gradients wait in `param.grad`: right, but they take memory. Walks the whole graph.
        """
        reachable = reachable_leaves(loss)
        self._unreachable = [
            index
            for index, parameter in enumerate(self.parameters)
            if id(parameter) not in reachable
        ]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let every `backward()` inside only add to this rank's buckets.

        The first one outside reduces the sum. From the first use on, all buckets are kept.
        """
        self.check_round("no_sync()")
        self._rounds.keep_all_buckets()
        before, self._accumulates_only = self._accumulates_only, True
        try:
            yield
        finally:
            self._accumulates_only = before

    def wait_for_shards(self) -> None:
        """Let the current stream read the shards; the host does not wait.

        Raises:
            UsageError: a backward has not ended, or none was reduced since the last `clear`.
        """
        self.check_round("step()")
        if self._reduced_rounds == 0:
            raise UsageError(
                "step() without a reduced gradient; call backward() first, the last one outside "
                "no_sync()"
            )
        self.hand_over.before_step(torch.cuda.current_stream(self.device))

    def clear(self) -> None:
        """Forget the gradients of all rounds: the next round replaces them.

        The current stream's reads of the shards come before that.
        """
        self.check_round("zero_grad()")
        self._rounds.forget_sums()
        if self._reduced_rounds:
            self.hand_over.after_step(torch.cuda.current_stream(self.device))
            self._reduced_rounds = 0

    def abandon(self, *, backwards: int = 1) -> None:
        """Take part in the rounds that this rank lacks, with zeros, and forget all gradients.

        After an exception in one rank's forward or backward, every rank calls it in place of the
        step; then all have issued the same collectives and go on with the next batch.

        Args:
            backwards: How often a step calls `backward()` outside `no_sync()`.

        Raises:
            UsageError: this rank has begun more of them, so the others would wait for each other.
        """
        options.check_count("backwards", backwards)
        begun = self._reduced_rounds + self.is_round_open
        if begun > backwards:
            raise UsageError(
                f"abandon(backwards={backwards}) after {begun} backwards outside no_sync(); "
                "expected how many a whole step has, the same number on every rank"
            )
        while self._reduced_rounds < backwards:
            if not self.is_round_open:
                self._rounds.open()
            self._reduce_rest()
        self._rounds.forget_sums()
        for parameter in self.parameters:
            parameter.grad = None
        self.hand_over.after_step(torch.cuda.current_stream(self.device))
        self._reduced_rounds = 0

    def close(self) -> None:
        """Remove the hooks. The memory is freed once nothing refers to this object."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def check_round(self, what: str) -> None:
        """Refuse to go on after a backward that raised.

        Raises:
            UsageError: a backward has begun and not ended.
        """
        if self.is_round_open:
            raise UsageError(
                f"{what} after a backward that did not end (it raised, or this call is inside it). "
                "Call abandon() on every rank, then go on with the next batch"
            )

    def on_gradient(self, index: int) -> None:
        """Take the gradient of a parameter; runs on autograd's stream, after it was accumulated."""
        gradient = self.parameters[index].grad
        if gradient is None:
            return
        if gradient.is_sparse:
            raise UsageError(
                f"parameter {index} has a sparse gradient; only dense ones are reduced"
            )
        task = torch._C._current_graph_task_id()
        if not self.is_round_open:
            self._rounds.open()
            self._task = task
            torch.autograd.Variable._execution_engine.queue_callback(self._end_round)
            if not self._accumulates_only:
                self._rounds.note_absent(self._unreachable)
        elif task != self._task:
            raise UsageError(
                "a gradient of another backward() before the first one has ended: an earlier one "
                "raised (call abandon() on every rank), or activation checkpointing runs one "
                "inside (use use_reentrant=False)"
            )
        self._rounds.note(index)
        if self._overlap and not self._accumulates_only:
            self._rounds.reduce_full()
        self._rounds.note_deferred()

    def _end_round(self) -> None:
        """Runs when backward has ended, with its caller's stream joined with all producers."""
        if self._accumulates_only:
            self._rounds.keep_sums()
            self._unreachable = []
        else:
            self._reduce_rest()

    def _reduce_rest(self) -> None:
        self._rounds.finish()
        self._unreachable = []
        self._reduced_rounds += 1

    def _drop(self, index: int) -> None:
        self.parameters[index].grad = None

    def _reduce(self, bucket: Bucket, memory: Tensor) -> None:
        factor = self._predivide / (bucket.parts if self._average else 1)
        shard = self.shards.part_of(bucket)
        group = self.spaces[bucket.space].process_group
        own = reduce_scatter_in_place(memory, group=group)
        if self._reduced_rounds:
            shard.add_(own, alpha=factor)
        elif own.dtype == shard.dtype:
            torch.mul(own, factor, out=shard)
        else:
            shard.copy_(own).mul_(factor)
        if self._on_reduced is not None:
            self._on_reduced(bucket, shard)


def _check_unhooked(parameters: Iterable[Parameter]) -> None:
    """Refuse parameters of another reducer: its hooks would take the gradients away.

    Raises:
        UsageError: one has hooks of a reducer that was not closed.
    """
    for index, parameter in enumerate(parameters):
        hooks = getattr(parameter, "_post_accumulate_grad_hooks", None) or {}
        if any(isinstance(hook, _Hook) for hook in hooks.values()):
            raise UsageError(
                f"parameter {index} belongs to another reducer, which takes its gradients; "
                "call close() of that ZeroOptimizer or GradientReducer first"
            )
