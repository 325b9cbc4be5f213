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


Key = tuple[object, int | None]
"""Which buffer of an optimizer: the dtype, or the attribute, and the position in its list."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """The bytes of one bucket buffer, with the name that reports give it.

    `tensor` tells a new buffer from an old one at the same address.
    """

    tensor: weakref.ref[torch.Tensor]
    begin: int
    end: int
    name: str

    def holds(self, address: int) -> bool:
        """Whether the byte at `address` lies in this buffer."""
        return self.begin <= address < self.end


def tensors_of(optimizer: object) -> Iterator[tuple[Key, torch.Tensor]]:
    """Yield the buffers that exist now; they are made anew for every backward pass."""
    for index, tensor in enumerate(getattr(optimizer, "ipg_buffer", None) or ()):
        yield ("ipg_buffer", index), tensor
    flat = getattr(optimizer, _STAGE_3_FLAT_BUFFER, None)
    if flat is not None:
        yield (_STAGE_3_FLAT_BUFFER, None), flat
    for dtype, bucket in (getattr(optimizer, "ipg_buckets", None) or {}).items():
        buffer = bucket.buffer
        if isinstance(buffer, (list, tuple)):
            for index, tensor in enumerate(buffer):
                yield (dtype, index), tensor
        elif buffer is not None:
            yield (dtype, None), buffer


def names_of_buffer(key: Key) -> tuple[str, str]:
    """The name that a report gives a buffer, and the short one that patterns use."""
    owner, index = key
    alias = f"ipg_buffer[{index or 0}]"
    if owner == "ipg_buffer":
        return alias, alias
    if owner == _STAGE_3_FLAT_BUFFER:
        return "ipg_bucket_flat_buffer", alias
    position = "" if index is None else f"[{index}]"
    return f"ipg_buckets[{str(owner).removeprefix('torch.')}].buffer{position}", alias


class BufferNames:
    """Names each buffer once in its life and remembers which tensors have their name.

    Asked twice for every gradient, so a buffer that has its name costs two look-ups.
    """

    def __init__(self) -> None:
        self._named: dict[Key, Buffer] = {}

    def name_new(self, optimizer: object) -> list[Buffer]:
        """Name the buffers not seen before; return all that exist now."""
        buffers = []
        for key, tensor in tensors_of(optimizer):
            buffer = self._named.get(key)
            if buffer is None or buffer.tensor() is not tensor:
                if not tensor.is_cuda or not tensor.numel():
                    continue
                buffer = _name(key, tensor)
                self._named[key] = buffer
            buffers.append(buffer)
        return buffers


def _name(key: Key, tensor: torch.Tensor) -> Buffer:
    name, alias = names_of_buffer(key)
    begin = int(tensor.data_ptr())
    end = begin + int(tensor.numel() * tensor.element_size())
    session.name_region(begin, end, name, aliases=(alias,))
    return Buffer(weakref.ref(tensor), begin, end, name)
