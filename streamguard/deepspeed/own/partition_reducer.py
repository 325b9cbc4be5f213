"""Reduces the gradients of one `DeepSpeedZeroOptimizer` into its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as distributed

from streamguard.deepspeed.own.layout import FlatParameter, lay_out_partitions
from streamguard.errors import UsageError
from streamguard.zero.collectives import reduce_to_owner
from streamguard.zero.hand_over import Edge, HandOver
from streamguard.zero.layout import Bucket
from streamguard.zero.rounds import Rounds

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup
    from torch.nn import Parameter

SLOTS = 2
"""Buckets that exist at once: as many as DeepSpeed has with overlap_comm."""


class Optimizer(Protocol):
    """What is read of `DeepSpeedZeroOptimizer`; the same from 0.18 to 0.19."""

    bit16_groups: Sequence[Sequence[Parameter]]
    round_robin_bit16_groups: Sequence[Sequence[Parameter]]
    params_in_partition: Sequence[Sequence[Parameter]]
    partition_size: Sequence[int]
    param_names: Mapping[Parameter, str]
    dp_process_group: ProcessGroup
    reduction_stream: torch.cuda.Stream
    overlap_comm: bool
    reduce_scatter: bool
    reduce_bucket_size: int
    postscale_gradients: bool
    gradient_predivide_factor: float
    gradient_accumulation_dtype: torch.dtype
    communication_data_type: torch.dtype

    def get_gradient_for_reduction(self, param: Parameter) -> Tensor | None:
        """`grad`, or where gradients of several backwards are added up in another dtype."""

    def clear_grad_attribute(self, param: Parameter) -> None:
        """Let go of that gradient."""


class FlatGradients(list["Tensor"]):
    """The gradients of one partition, one by one, as `averaged_gradients` holds them.

    Attributes:
        flat_partition: All of them with padding; where a release looks for it, no copy is made.
    """

    def __init__(self, gradients: Sequence[Tensor], flat_partition: Tensor) -> None:
        super().__init__(gradients)
        self.flat_partition = flat_partition


class PartitionReducer:
    """Brings each gradient into the partition of the rank that owns it.

    Every backward is a round. What rounds add up in `partitions` begins anew after
    `averaged_gradients` was asked for.

    Args:
        optimizer: It stays in charge of everything but the reduction.
        without_edge: Leaves one edge out, for the proof that it is needed.
    """

    def __init__(self, optimizer: Optimizer, *, without_edge: Edge | None = None) -> None:
        self._optimizer = optimizer
        self._group = optimizer.dp_process_group
        self._rank = distributed.get_rank(self._group)
        self._parameters = _in_order_of_use(optimizer)
        self._index_of = {id(p): index for index, p in enumerate(self._parameters)}
        flat = _flat_parameters(optimizer)
        wire_dtype = optimizer.communication_data_type
        self._layout = lay_out_partitions(
            [flat[id(parameter)] for parameter in self._parameters],
            partition_elements=[int(size) for size in optimizer.partition_size],
            bucket_elements=optimizer.reduce_bucket_size,
            element_bytes=wire_dtype.itemsize,
        )
        self._flat = flat
        device = self._parameters[0].device
        self.partitions = [
            torch.zeros(int(size), dtype=optimizer.gradient_accumulation_dtype, device=device)
            for size in optimizer.partition_size
        ]
        before, self._factor = _scaling(optimizer, distributed.get_world_size(self._group))
        stream = (
            optimizer.reduction_stream
            if optimizer.overlap_comm
            else torch.cuda.current_stream(device)
        )
        self._device = device
        self._hand_over = HandOver(stream, without=without_edge)
        self._rounds = Rounds(
            self._layout.layout,
            self._hand_over,
            wire_dtypes=[wire_dtype],
            device=device,
            slots=SLOTS,
            divisor=before,
            gradient_of=self._gradient_of,
            drop=lambda index: optimizer.clear_grad_attribute(self._parameters[index]),
            reduce=self._reduce,
        )
        self._adds = False
        for partition in self.partitions:
            partition.record_stream(stream)

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Device memory for gradients: `slots`, `shards`, and at most `deferred_peak` beside."""
        return {
            "slots": self._rounds.slot_bytes,
            "shards": sum(p.numel() * p.element_size() for p in self.partitions),
            "deferred_peak": self._rounds.deferred_peak_bytes,
        }

    def arrive(self, parameter: Parameter) -> None:
        """Take a gradient that is ready on the current stream; it is gone once it is copied.

        Raises:
            UsageError: it is the parameter's second one in this backward, or it is sparse.
        """
        index = self._index_of[id(parameter)]
        gradient = self._gradient_of(index)
        if gradient is not None and gradient.is_sparse:
            name = self._optimizer.param_names.get(parameter, "a parameter")
            raise UsageError(
                f"{name} has a sparse gradient, which ZeRO cannot divide among the ranks; make its "
                "module with sparse=False"
            )
        if not self._rounds.is_open:
            self._rounds.open()
        if torch._C._current_graph_task_id() == -1:
            self._keep_for_this_stream(index)
        if not self._rounds.is_missing(index):
            name = self._optimizer.param_names.get(parameter, "a parameter")
            raise UsageError(
                f"a second gradient of {name} arrived before its backward ended: an earlier "
                "backward raised, or the parameter is used in two reentrant checkpoints"
            )
        self._rounds.note(index)
        self._rounds.reduce_full()
        self._rounds.note_deferred()

    def finish(self) -> None:
        """End the round, on the stream of the caller of backward.

        A parameter without a gradient counts as zero. One that has a gradient of an earlier
        backward, which stage 1 leaves where it is, counts with that.
        """
        if not self._rounds.is_open:
            self._rounds.open()
        for index in range(len(self._parameters)):
            if self._rounds.is_missing(index) and self._gradient_of(index) is not None:
                self._keep_for_this_stream(index)
                self._rounds.note(index)
        self._rounds.finish()
        self._adds = True

    def averaged_gradients(self) -> dict[int, FlatGradients]:
        """Return this rank's mean gradients for the step, by group; the next round replaces them.

        The current stream may read them.
        """
        self._hand_over.before_step(torch.cuda.current_stream(self._device))
        self._adds = False
        return {group: self._gradients_of(group) for group in range(len(self.partitions))}

    def after_step(self) -> None:
        """Let the next round replace the gradients after the current stream has read them."""
        self._hand_over.after_step(torch.cuda.current_stream(self._device))

    def _gradient_of(self, index: int) -> Tensor | None:
        return self._optimizer.get_gradient_for_reduction(self._parameters[index])

    def _keep_for_this_stream(self, index: int) -> None:
        """Outside backward a gradient may belong to another stream than the one that copies it."""
        gradient = self._gradient_of(index)
        if gradient is not None:
            gradient.record_stream(torch.cuda.current_stream(self._device))

    def _reduce(self, bucket: Bucket, memory: Tensor) -> None:
        for owner, offset, length in self._layout.ranges_by_owner(bucket.index):
            reduce_to_owner(memory.narrow(0, offset, length), owner, group=self._group)
        for run in self._layout.runs[bucket.index]:
            if run.owner != self._rank:
                continue
            source = memory.narrow(0, run.offset, run.length)
            if self._factor != 1:
                source.mul_(self._factor)
            target = self.partitions[run.group].narrow(0, run.begin, run.length)
            if self._adds:
                target.add_(source)
            else:
                target.copy_(source)

    def _gradients_of(self, group: int) -> FlatGradients:
        """Cut a partition into gradients and padding, which is marked as DeepSpeed marks it."""
        flat = self.partitions[group]
        size = flat.numel()
        gradients: list[Tensor] = []
        end = 0

        def pad_to(begin: int) -> None:
            if begin > end:
                padding = flat.narrow(0, end, begin - end)
                padding._zero_padding = True
                gradients.append(padding)

        for parameter in self._optimizer.params_in_partition[group]:
            place = self._flat[id(parameter)]
            first = max(place.begin - self._rank * size, 0)
            last = min(place.begin + place.elements - self._rank * size, size)
            pad_to(first)
            gradient = flat.narrow(0, first, last - first)
            is_whole = last - first == place.elements
            gradients.append(gradient.view(parameter.shape) if is_whole else gradient)
            end = last
        pad_to(size)
        return FlatGradients(gradients, flat)


def _in_order_of_use(optimizer: Optimizer) -> list[Parameter]:
    """The parameters of all groups in the module's order, in which `param_names` has them."""
    trained = {id(p): p for group in optimizer.bit16_groups for p in group if p.numel()}
    named = [parameter for parameter in optimizer.param_names if id(parameter) in trained]
    for parameter in named:
        del trained[id(parameter)]
    return [*named, *trained.values()]


def _flat_parameters(optimizer: Optimizer) -> dict[int, FlatParameter]:
    flat = {}
    offsets_of = getattr(optimizer, "round_robin_bit16_offsets", None)  # from 0.19.3 on
    for group, parameters in enumerate(optimizer.round_robin_bit16_groups):
        begin = 0
        for position, parameter in enumerate(parameters):
            if offsets_of is not None:
                begin = offsets_of[group][position]
            flat[id(parameter)] = FlatParameter(group, begin, parameter.numel())
            begin += parameter.numel()
    return flat


def _scaling(optimizer: Optimizer, ranks: int) -> tuple[float, float]:
    """By what gradients are divided before the sum, and multiplied by after it.

    As DeepSpeed does it, so that the rounding is the same.
    """
    if not getattr(optimizer, "gradient_average", True):  # a setting from 0.19.3 on
        return 1.0, 1.0
    if optimizer.reduce_scatter or not optimizer.postscale_gradients:
        return float(ranks), 1.0
    factor = float(optimizer.gradient_predivide_factor)
    return factor, factor / ranks
