"""Takes gradients through slots of bucket memory to their reductions, in one order on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from streamguard.zero.arrivals import Arrivals, Write
from streamguard.zero.hand_over import HandOver
from streamguard.zero.layout import Bucket, Layout
from streamguard.zero.slots import Slots

if TYPE_CHECKING:
    from torch import Tensor


class Rounds:
    """One round after the other: every parameter's gradient, or zero, once.

    It knows neither hooks nor collectives. Whoever uses it says when a gradient is there and what
    reduces a full bucket.

    Thread safety: none. Gradients may come from any stream.

    Args:
        layout: Where each gradient lies.
        hand_over: Orders producers and reductions.
        wire_dtypes: Dtype of each space's buckets.
        device: Where the buckets lie.
        slots: Number of buckets that exist at once.
        divisor: Gradients are divided by it on their way into the bucket.
        gradient_of: The gradient of a parameter, or None.
        drop: Lets go of the gradient of a parameter, which has been copied.
        reduce: Issues the reduction of a bucket, given its memory, on the current stream, and all
            reads of it.
    """

    def __init__(
        self,
        layout: Layout,
        hand_over: HandOver,
        *,
        wire_dtypes: Sequence[torch.dtype],
        device: torch.device,
        slots: int,
        divisor: float,
        gradient_of: Callable[[int], Tensor | None],
        drop: Callable[[int], None],
        reduce: Callable[[Bucket, Tensor], None],
    ) -> None:
        self.deferred_peak_bytes = 0
        self._layout = layout
        self._hand_over = hand_over
        self._wire_dtypes = tuple(wire_dtypes)
        self._device = device
        self._divisor = divisor
        self._gradient_of = gradient_of
        self._drop = drop
        self._reduce = reduce
        self._slots = self._new_slots(min(slots, len(layout.buckets)))
        self._arrivals = Arrivals(layout)

    @property
    def is_open(self) -> bool:
        """Whether a round has begun and not ended."""
        return self._arrivals.is_open

    @property
    def slot_bytes(self) -> int:
        """Device memory of all slots."""
        return self._slots.size_bytes

    def open(self) -> None:
        """Begin a round."""
        self._arrivals.open()

    def note(self, parameter: int) -> None:
        """Note that a gradient is ready on the current stream, and write what has a slot.

        Raises:
            UsageError: it is the parameter's second one in this round.
        """
        self._arrivals.note(parameter, torch.cuda.current_stream(self._device))
        self._write_waiting()

    def note_absent(self, parameters: Iterable[int]) -> None:
        """Note that these get no gradient in this round, unless they have."""
        self._arrivals.note_absent(parameters, torch.cuda.current_stream(self._device))

    def is_missing(self, parameter: int) -> bool:
        """Whether there was no gradient of a parameter, nor word of its absence, in this round."""
        return self._arrivals.is_missing(parameter)

    def reduce_full(self) -> None:
        """Reduce the next buckets while they are full; each makes room for gradients that wait."""
        while (bucket := self._arrivals.take_full()) is not None:
            slot = self._slots.of(bucket.index)
            with torch.cuda.stream(self._hand_over.communication_stream):
                self._hand_over.before_reduce(slot)
                self._reduce(bucket, self._view(bucket))
                self._hand_over.after_reduce(slot)
            self._write_waiting()

    def note_deferred(self) -> None:
        """Measure the gradients that wait because they came out of order."""
        waiting = (self._gradient_of(index) for index in self._arrivals.waiting())
        self.deferred_peak_bytes = max(self.deferred_peak_bytes, sum(map(_size_bytes, waiting)))

    def finish(self) -> None:
        """End the round: gradients that did not come are zero, and the rest is reduced."""
        self.note_absent(range(len(self._layout.parameters)))
        self._write_waiting()
        self.reduce_full()
        self._arrivals.close(keeps_sums=False)
        self._hand_over.after_round()

    def keep_sums(self) -> None:
        """End the round without a reduction; the next one adds to what the buckets hold."""
        self._arrivals.close(keeps_sums=True)

    def forget_sums(self) -> None:
        """Drop what rounds without a reduction have left in the buckets."""
        if self._arrivals.holds_sums:
            self._hand_over.forget_slots()
            self._arrivals.close(keeps_sums=False)

    def keep_all_buckets(self) -> None:
        """Have memory for every bucket from now on; between rounds only."""
        count = len(self._layout.buckets)
        if self._slots.count < count:
            self._hand_over.forget_slots()
            self._slots = self._new_slots(count)

    def _new_slots(self, count: int) -> Slots:
        return Slots(
            count,
            slot_bytes=self._layout.bucket_bytes,
            device=self._device,
            communication_stream=self._hand_over.communication_stream,
        )

    def _write_waiting(self) -> None:
        for write in self._arrivals.writes(self._slots.count):
            # On the stream that has the gradient: its memory is never read on another one, so
            # dropping it needs no record_stream beyond what autograd has done.
            with torch.cuda.stream(write.stream):
                self._write(write)
            if write.is_last:
                self._drop(write.piece.parameter)

    def _write(self, write: Write) -> None:
        slot = self._slots.of(write.bucket.index)
        self._hand_over.before_write(slot, write.stream)
        self._slots.note_use(slot, write.stream)
        piece = write.piece
        target = self._view(write.bucket).narrow(0, piece.offset, piece.length)
        if write.is_zero:
            target.zero_()
        else:
            gradient = self._gradient_of(piece.parameter)
            assert gradient is not None
            source = gradient.reshape(-1).narrow(0, piece.begin, piece.length)
            if write.adds:
                target.add_(source, alpha=1 / self._divisor)
            elif self._divisor == 1:
                target.copy_(source)
            elif torch.promote_types(source.dtype, target.dtype) == source.dtype:
                torch.div(source, self._divisor, out=target)
            else:
                # In the wider dtype: half of a subnormal float16 would lose its last bit.
                target.copy_(source).div_(self._divisor)
        self._hand_over.after_write(slot, write.stream)

    def _view(self, bucket: Bucket) -> Tensor:
        return self._slots.view(
            self._slots.of(bucket.index),
            dtype=self._wire_dtypes[bucket.space],
            elements=bucket.elements,
        )


def _size_bytes(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.numel() * tensor.element_size()
