"""The part of the gradients that this rank owns: flat memory, and a view for every range of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from streamguard.zero.layout import Bucket, Layout

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Fragment:
    """A range of one parameter that this rank owns.

    Attributes:
        parameter: Index of the parameter.
        begin: Where the range begins in the flattened parameter, in elements.
        length: Number of elements.
        bucket: Index of the bucket that it lies in.
        offset: Where the range begins in this rank's part of the bucket.
    """

    parameter: int
    begin: int
    length: int
    bucket: int
    offset: int


def fragments_of(layout: Layout, parts: Sequence[int]) -> tuple[Fragment, ...]:
    """List what a rank owns, by parameter and begin.

    Args:
        layout: The layout.
        parts: The rank's part in each space.
    """
    fragments = [
        Fragment(piece.parameter, piece.begin, piece.length, bucket.index, piece.offset)
        for bucket in layout.buckets
        for piece in bucket.owned(parts[bucket.space])
    ]
    return tuple(sorted(fragments, key=lambda fragment: (fragment.parameter, fragment.begin)))


class Shards:
    """One flat tensor for each space, of shape [elements / parts].

    Args:
        layout: The layout.
        dtypes: Dtype of each space's shard.
        device: Where they lie.
    """

    def __init__(
        self, layout: Layout, *, dtypes: Sequence[torch.dtype], device: torch.device
    ) -> None:
        self._layout = layout
        self.flat = [
            torch.zeros(space.elements // space.parts, dtype=dtype, device=device)
            for space, dtype in zip(layout.spaces, dtypes, strict=True)
        ]

    @property
    def size_bytes(self) -> int:
        """Device memory of all shards."""
        return sum(flat.numel() * flat.element_size() for flat in self.flat)

    def part_of(self, bucket: Bucket) -> Tensor:
        """Return this rank's part of a bucket, as a view."""
        begin = bucket.begin // bucket.parts
        return self.flat[bucket.space].narrow(0, begin, bucket.part_elements)

    def view(self, fragment: Fragment) -> Tensor:
        """Return the values of a fragment, shape [length], as a view."""
        part = self.part_of(self._layout.buckets[fragment.bucket])
        return part.narrow(0, fragment.offset, fragment.length)
