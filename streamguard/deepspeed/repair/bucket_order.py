"""The order between the streams that fill buckets and the stream that reduces them.

Each method that adds an order names the race of docs/deepspeed.md that it closes. Without one of
them the detector finds that race again: tests/deepspeed/test_repair_edges.py takes each out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import torch

from streamguard.deepspeed.repair.buckets import (
    Bucket,
    Optimizer,
    bucket_for,
    buckets_of,
    set_index,
)

if TYPE_CHECKING:
    Buffer = tuple[Hashable, int]
    Producer = tuple[Hashable, torch.cuda.Stream]


class BucketOrder:
    """The events of one optimizer's buckets.

    Called from the threads that run its gradient hooks, one at a time, as DeepSpeed's own state is.
    """

    def __init__(self) -> None:
        # Recorded on the reducing stream after the reduction of a buffer and the copies out of it;
        # waited for by every stream that fills the buffer again.
        self._reduced: dict[Buffer, torch.cuda.Event] = {}
        # Recorded on a producer's stream after each gradient that it put into the bucket; waited
        # for by the stream that reduces the bucket.
        self._filled: dict[Producer, torch.cuda.Event] = {}
        self._unreduced: set[Producer] = set()

    def before_fill(self, optimizer: Optimizer, parameter: torch.Tensor) -> None:
        """Order the current stream before it puts the gradient of `parameter` into its bucket."""
        bucket = bucket_for(optimizer, parameter)
        flushes = bucket.elements + parameter.numel() > optimizer.reduce_bucket_size
        swaps = flushes and optimizer.overlap_comm
        index = 1 - bucket.index if swaps else bucket.index
        if parameter.numel() > optimizer.reduce_bucket_size and optimizer.overlap_comm:
            return  # an oversize gradient stays where it is
        self.refill_waits_for_reduction(bucket.key, index)

    def after_fill(self, optimizer: Optimizer, parameter: torch.Tensor) -> None:
        """Remember that the current stream put a gradient into the bucket of `parameter`."""
        producer = (bucket_for(optimizer, parameter).key, torch.cuda.current_stream())
        event = self._filled.get(producer)
        if event is None:
            event = self._filled[producer] = torch.cuda.Event()
        event.record(producer[1])
        self._unreduced.add(producer)

    def before_reduction(self, optimizer: Optimizer, tensor: torch.Tensor, key: Hashable) -> None:
        """Order the reducing stream before it reduces `tensor`, the filled part of a bucket."""
        stream = reducing_stream(optimizer)
        self.reduction_waits_for_producers(key, stream)
        if not optimizer.overlap_comm or not _is_in(tensor, buckets_of(optimizer)):
            self.memory_outlives_reduction(tensor, stream)

    def after_reductions(self, optimizer: Optimizer, before: Sequence[Bucket]) -> None:
        """Remember the reductions that emptied some of the buckets, given as they were before."""
        now = {bucket.key: bucket for bucket in buckets_of(optimizer)}
        event: torch.cuda.Event | None = None
        for bucket in before:
            if now[bucket.key].index != bucket.index:
                self.buffers_alternate(optimizer, bucket)
            if now[bucket.key].elements != 0:
                continue
            if bucket.elements == 0 and bucket.key is not None:
                continue  # earlier releases reduce the whole buffer, however empty
            if bucket.elements > optimizer.reduce_bucket_size and optimizer.overlap_comm:
                continue  # an oversize gradient, which was in no buffer
            if event is None:
                event = torch.cuda.Event()
                event.record(reducing_stream(optimizer))
            self._reduced[bucket.key, bucket.index] = event

    def refill_waits_for_reduction(self, key: Hashable, index: int) -> None:
        """PR 2500, PR 6993, OPEN A: whoever fills a buffer again waits for its reduction."""
        event = self._reduced.get((key, index))
        if event is not None:
            torch.cuda.current_stream().wait_event(event)

    def reduction_waits_for_producers(self, key: Hashable, stream: torch.cuda.Stream) -> None:
        """PR 8080: the reduction waits for every stream that filled the bucket.

        DeepSpeed itself waits for the stream that flushes.
        """
        current = torch.cuda.current_stream()
        for producer in [producer for producer in self._unreduced if producer[0] == key]:
            self._unreduced.discard(producer)
            if producer[1] != current:
                stream.wait_event(self._filled[producer])

    def memory_outlives_reduction(self, tensor: torch.Tensor, stream: torch.cuda.Stream) -> None:
        """PR 7965, OPEN B: an oversize gradient is dropped while the reducing stream works on it.

        Without overlap_comm also the bucket: nothing synchronises before it is freed.
        """
        tensor.record_stream(stream)

    def buffers_alternate(self, optimizer: Optimizer, bucket: Bucket) -> None:
        """PR 6993: 0.17.2 to 0.17.4 start again with the first buffer after every reduction.

        Refilling would wait for the reduction just started, and nothing would overlap.
        """
        set_index(optimizer, bucket.key, bucket.index)


def reducing_stream(optimizer: Optimizer) -> torch.cuda.Stream:
    """Return the stream on which this optimizer reduces when called now."""
    return optimizer.reduction_stream if optimizer.overlap_comm else torch.cuda.current_stream()


def _is_in(tensor: torch.Tensor, buckets: Sequence[Bucket]) -> bool:
    address = tensor.untyped_storage().data_ptr()
    return any(
        buffer.untyped_storage().data_ptr() == address
        for bucket in buckets
        for buffer in bucket.buffers
    )
