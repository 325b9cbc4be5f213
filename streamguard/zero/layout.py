"""Where each parameter's gradient lies: buckets, laid out once, in which all ranks own equal parts.

Parameters of one process group and dtype form a *space*: one contiguous range of elements, in
reverse order of use, cut into buckets of equal size. A parameter that does not fit into the rest of
a bucket goes on in the next one, so no parameter is oversize and only the last bucket of a space is
padded.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from streamguard.errors import UsageError

# Elements. Every rank's part of a bucket begins at a multiple of 16 bytes also for 2-byte dtypes,
# which NCCL copies fastest.
PART_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """What the layout needs to know of a parameter.

    Attributes:
        elements: Number of elements, at least 1.
        space: Parameters with equal keys share buckets: same process group, same dtypes.
        parts: Size of its process group.
        element_bytes: Bytes of one gradient element on the wire.
    """

    elements: int
    space: Hashable
    parts: int
    element_bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of one parameter inside one bucket, in elements.

    Attributes:
        parameter: Index of the parameter.
        begin: Where the piece begins in the flattened parameter.
        length: Number of elements.
        offset: Where the piece begins in the bucket.
    """

    parameter: int
    begin: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """One collective's worth of gradients.

    Attributes:
        index: Place in the order in which every rank reduces the buckets.
        space: Index of its space.
        begin: Where the bucket begins in its space, in elements; a multiple of the part count.
        elements: Size with padding, a multiple of `parts * PART_ALIGNMENT`.
        parts: Number of ranks that own an equal part.
        pieces: What lies in it, by offset.
    """

    index: int
    space: int
    begin: int
    elements: int
    parts: int
    pieces: tuple[Piece, ...]

    @property
    def part_elements(self) -> int:
        """Elements that each rank owns."""
        return self.elements // self.parts

    @property
    def padding(self) -> int:
        """Elements that belong to no parameter."""
        return self.elements - sum(piece.length for piece in self.pieces)

    def owned(self, part: int) -> tuple[Piece, ...]:
        """Cut the pieces to what lies in one rank's part; offsets count from the part's begin."""
        begin = part * self.part_elements
        end = begin + self.part_elements
        owned = []
        for piece in self.pieces:
            first = max(piece.offset, begin)
            last = min(piece.offset + piece.length, end)
            if first < last:
                start = piece.begin + first - piece.offset
                owned.append(Piece(piece.parameter, start, last - first, first - begin))
        return tuple(owned)


@dataclass(frozen=True, slots=True)
class Space:
    """The parameters of one process group and dtype.

    Attributes:
        key: What its parameters have in common.
        parts: Size of the process group.
        element_bytes: Bytes of one gradient element on the wire.
        elements: Size with padding.
    """

    key: Hashable
    parts: int
    element_bytes: int
    elements: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All buckets of a model, the same on every rank of a process group.

    Attributes:
        parameters: The parameters, in the order given.
        spaces: The spaces, in order of first use of a parameter.
        buckets: The buckets, in the order in which they are reduced.
        bucket_bytes: Size of the largest bucket.
    """

    parameters: tuple[ParameterSpec, ...]
    spaces: tuple[Space, ...]
    buckets: tuple[Bucket, ...]
    bucket_bytes: int

    def pieces_of(self, parameter: int) -> list[tuple[Bucket, Piece]]:
        """Where one parameter lies, in bucket order."""
        return [
            (bucket, piece)
            for bucket in self.buckets
            for piece in bucket.pieces
            if piece.parameter == parameter
        ]


def build_layout(parameters: Sequence[ParameterSpec], *, bucket_bytes: int) -> Layout:
    """Lay the parameters out in buckets of at most `bucket_bytes`.

    Gradients arrive in reverse order of use, so the last parameter lies first. The place of a
    bucket in the order is that of its last gradient: where spaces interleave, each bucket is
    reduced as soon as it can be.

    Args:
        parameters: In order of use.
        bucket_bytes: Rounded down to whole parts, and up to one aligned part per rank.

    Raises:
        UsageError: there is no parameter, an empty one, or `bucket_bytes` is not positive.
    """
    if not parameters:
        raise UsageError("no parameter needs a gradient; give at least one with requires_grad")
    if bucket_bytes < 1:
        raise UsageError(f"bucket_bytes={bucket_bytes}: expected at least 1")
    keys = list(dict.fromkeys(spec.space for spec in reversed(parameters)))
    spaces: list[Space] = []
    unordered: list[tuple[int, int, Bucket]] = []  # place of the last gradient, space, bucket
    for index, key in enumerate(keys):
        members = [i for i in reversed(range(len(parameters))) if parameters[i].space == key]
        space, buckets = _lay_out_space(index, members, parameters, bucket_bytes)
        spaces.append(space)
        last = len(parameters)
        unordered += [(last - b.pieces[-1].parameter, index, b) for b in buckets]
    unordered.sort(key=lambda entry: entry[:2])  # stable: a space's own order stays
    ordered = tuple(
        Bucket(place, b.space, b.begin, b.elements, b.parts, b.pieces)
        for place, (_, _, b) in enumerate(unordered)
    )
    largest = max(b.elements * spaces[b.space].element_bytes for b in ordered)
    return Layout(tuple(parameters), tuple(spaces), ordered, largest)


def _lay_out_space(
    index: int, members: Sequence[int], parameters: Sequence[ParameterSpec], bucket_bytes: int
) -> tuple[Space, list[Bucket]]:
    first = parameters[members[0]]
    unit = first.parts * PART_ALIGNMENT
    capacity = max(bucket_bytes // first.element_bytes // unit, 1) * unit
    buckets: list[Bucket] = []
    pieces: list[Piece] = []
    filled = 0

    def close() -> None:
        nonlocal filled
        elements = -(-filled // unit) * unit
        begin = len(buckets) * capacity
        buckets.append(Bucket(-1, index, begin, elements, first.parts, tuple(pieces)))
        pieces.clear()
        filled = 0

    for parameter in members:
        elements = parameters[parameter].elements
        if elements < 1:
            raise UsageError(f"parameter {parameter} has no element; freeze it or leave it out")
        begin = 0
        while begin < elements:
            length = min(elements - begin, capacity - filled)
            pieces.append(Piece(parameter, begin, length, filled))
            begin += length
            filled += length
            if filled == capacity:
                close()
    if pieces:
        close()
    size = buckets[-1].begin + buckets[-1].elements
    return Space(first.space, first.parts, first.element_bytes, size), buckets
