"""Finds the gradient buckets of a ZeRO optimizer, whatever the release calls them.

0.8.0 to 0.17.1 keep a list `ipg_buffer`; from 0.17.2 on there is one bucket per dtype,
`ipg_buckets[dtype].buffer`: a list in stage 1 and 2, one tensor in stage 3. Stage 3 before that has
one private flat buffer.
"""

from __future__ import annotations

import weakref
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


def tensors_of(optimizer: object) -> list[tuple[Key, torch.Tensor]]:
    """Return the buffers that exist now; they are made anew for every backward pass."""
    tensors: list[tuple[Key, torch.Tensor]] = []
    attributes = vars(optimizer)
    for index, tensor in enumerate(attributes.get("ipg_buffer") or ()):
        tensors.append((("ipg_buffer", index), tensor))
    flat = attributes.get(_STAGE_3_FLAT_BUFFER)
    if flat is not None:
        tensors.append(((_STAGE_3_FLAT_BUFFER, None), flat))
    for dtype, bucket in (attributes.get("ipg_buckets") or {}).items():
        buffer = bucket.buffer
        if isinstance(buffer, (list, tuple)):
            for index, tensor in enumerate(buffer):
                tensors.append(((dtype, index), tensor))
        elif buffer is not None:
            tensors.append(((dtype, None), buffer))
    return tensors


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

    Asked for every gradient, so buffers that have their names cost little more than a list.
    """

    def __init__(self) -> None:
        self._seen: list[weakref.ref[torch.Tensor]] = []
        self._named: list[Buffer] = []

    def around(self, address: int) -> Buffer | None:
        """Return the buffer that holds the byte, if it has its name and still exists."""
        for buffer in self._named:
            if buffer.begin <= address < buffer.end and buffer.tensor() is not None:
                return buffer
        return None

    def named(self) -> list[tuple[torch.Tensor, str]]:
        """Return the buffers that still exist, with their names."""
        alive = ((buffer.tensor(), buffer.name) for buffer in self._named)
        return [(tensor, name) for tensor, name in alive if tensor is not None]

    def name_new(self, optimizer: object) -> bool:
        """Name the buffers not seen before; False when the buffers are those of the last call."""
        tensors = tensors_of(optimizer)
        if len(tensors) == len(self._seen):
            for seen, (_, tensor) in zip(self._seen, tensors, strict=True):
                if seen() is not tensor:
                    break
            else:
                return False
        self._seen = [weakref.ref(tensor) for _, tensor in tensors]
        known = {id(buffer.tensor()): buffer for buffer in self._named}
        self._named = [
            known.get(id(tensor)) or _name(key, tensor)
            for key, tensor in tensors
            if tensor.is_cuda and tensor.numel()
        ]
        return True


def _name(key: Key, tensor: torch.Tensor) -> Buffer:
    name, alias = names_of_buffer(key)
    begin = int(tensor.data_ptr())
    end = begin + int(tensor.numel() * tensor.element_size())
    session.name_region(begin, end, name, aliases=(alias,))
    return Buffer(weakref.ref(tensor), begin, end, name)
