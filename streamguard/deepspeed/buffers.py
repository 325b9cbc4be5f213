"""Finds the gradient buckets of a ZeRO optimizer, whatever the release calls them.

0.8.0 to 0.17.1 keep a list `ipg_buffer`; from 0.17.2 on there is one bucket per dtype,
`ipg_buckets[dtype].buffer`: a list in stage 1 and 2, one tensor in stage 3. Stage 3 before that has
one private flat buffer.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamguard import session

if TYPE_CHECKING:
    import torch

_STAGE_3_FLAT_BUFFER = "_DeepSpeedZeroOptimizer_Stage3__ipg_bucket_flat_buffer"


@dataclass(frozen=True, slots=True)
class Buffer:
    """One bucket buffer, with the name a report gives it and the short one patterns use."""

    tensor: torch.Tensor
    name: str
    alias: str

    @property
    def begin(self) -> int:
        """First byte's address."""
        return int(self.tensor.data_ptr())

    @property
    def end(self) -> int:
        """Address behind the last byte."""
        return self.begin + int(self.tensor.numel() * self.tensor.element_size())

    def holds(self, address: int) -> bool:
        """Whether the byte at `address` lies in this buffer."""
        return self.begin <= address < self.end


def buffers_of(optimizer: object) -> Iterator[Buffer]:
    """Yield the buffers that exist now; they are made anew for every backward pass."""
    for index, tensor in enumerate(getattr(optimizer, "ipg_buffer", None) or ()):
        yield Buffer(tensor, f"ipg_buffer[{index}]", f"ipg_buffer[{index}]")
    flat = getattr(optimizer, _STAGE_3_FLAT_BUFFER, None)
    if flat is not None:
        yield Buffer(flat, "ipg_bucket_flat_buffer", "ipg_buffer[0]")
    for dtype, bucket in (getattr(optimizer, "ipg_buckets", None) or {}).items():
        short = str(dtype).removeprefix("torch.")
        buffer = bucket.buffer
        if isinstance(buffer, (list, tuple)):
            for index, tensor in enumerate(buffer):
                name = f"ipg_buckets[{short}].buffer[{index}]"
                yield Buffer(tensor, name, f"ipg_buffer[{index}]")
        elif buffer is not None:
            yield Buffer(buffer, f"ipg_buckets[{short}].buffer", "ipg_buffer[0]")


class BufferNames:
    """Names each buffer once in its life and remembers which tensors have their name."""

    def __init__(self) -> None:
        self._named: dict[str, weakref.ref[torch.Tensor]] = {}

    def name_new(self, optimizer: object) -> list[Buffer]:
        """Name the buffers not seen before; return all that exist now."""
        buffers = [b for b in buffers_of(optimizer) if b.tensor.is_cuda and b.tensor.numel()]
        for buffer in buffers:
            seen = self._named.get(buffer.name)
            # The weak reference tells a new buffer from the old one at the same address.
            if seen is None or seen() is not buffer.tensor:
                self._named[buffer.name] = weakref.ref(buffer.tensor)
                session.name_region(buffer.begin, buffer.end, buffer.name, aliases=(buffer.alias,))
        return buffers
