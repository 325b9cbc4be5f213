"""The memory that gradients pass through on their way to the reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.cuda import Stream


class Slots:
    """Equal pieces of device memory; bucket b uses slot b modulo their number.

    A ring of few slots for ZeRO-2; as many slots as buckets for ZeRO-1 and gradient accumulation.

    Args:
        count: Number of slots.
        slot_bytes: Size of the largest bucket.
        device: Where they lie.
        communication_stream: Reads them.
    """

    def __init__(
        self,
        count: int,
        *,
        slot_bytes: int,
        device: torch.device,
        communication_stream: Stream,
    ) -> None:
        self.count = count
        self._memory = [
            torch.empty(slot_bytes, dtype=torch.uint8, device=device) for _ in range(count)
        ]
        self._used_on: set[tuple[int, int]] = set()
        for slot in range(count):
            self.note_use(slot, communication_stream)

    @property
    def size_bytes(self) -> int:
        """Device memory of all slots."""
        return sum(memory.numel() for memory in self._memory)

    def of(self, bucket: int) -> int:
        """Slot that a bucket uses."""
        return bucket % self.count

    def view(self, slot: int, *, dtype: torch.dtype, elements: int) -> Tensor:
        """Return the first `elements` of a slot as a tensor of `dtype`."""
        return self._memory[slot].view(dtype).narrow(0, 0, elements)

    def note_use(self, slot: int, stream: Stream) -> None:
        """Keep the slot's memory, once it is given up, until `stream` has finished with it."""
        key = (slot, stream.cuda_stream)
        if key not in self._used_on:
            self._used_on.add(key)
            self._memory[slot].record_stream(stream)
