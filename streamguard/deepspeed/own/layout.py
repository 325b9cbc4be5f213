"""Buckets over DeepSpeed's partitions: which rank owns which range of each bucket.

DeepSpeed flattens each parameter group and gives every rank one contiguous partition of it. That
layout stays, since masters, optimizer states and checkpoints are in it. A bucket holds gradients in
the order in which backward makes them, of all groups, and inside a bucket they lie by owner. So a
bucket is full early in backward, and each owner gets its range by one reduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamguard.zero.layout import Bucket, Layout, ParameterSpec, Piece, Space


@dataclass(frozen=True, slots=True)
class FlatParameter:
    """Where one parameter lies.

    Attributes:
        group: Index of its parameter group.
        begin: Where it begins in the flattened group, in elements.
        elements: Number of elements, at least 1.
    """

    group: int
    begin: int
    elements: int


@dataclass(frozen=True, slots=True)
class Run:
    """A range that is contiguous in a bucket and in one rank's partition, in elements.

    Attributes:
        owner: Rank of the data-parallel group.
        group: Index of the parameter group.
        begin: Where it begins in the owner's partition of the group.
        length: Number of elements.
        offset: Where it begins in the bucket.
    """

    owner: int
    group: int
    begin: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """All buckets.

    Attributes:
        layout: One space, in which no range is divided equally and nothing is padded.
        runs: For each bucket its runs, by offset; together they cover it.
    """

    layout: Layout
    runs: tuple[tuple[Run, ...], ...]

    def ranges_by_owner(self, bucket: int) -> list[tuple[int, int, int]]:
        """Owner, offset and length of each range of a bucket that one rank owns."""
        ranges: list[tuple[int, int, int]] = []
        for run in self.runs[bucket]:
            if ranges and ranges[-1][0] == run.owner:
                owner, offset, length = ranges.pop()
                ranges.append((owner, offset, length + run.length))
            else:
                ranges.append((run.owner, run.offset, run.length))
        return ranges


def lay_out_partitions(
    parameters: Sequence[FlatParameter],
    *,
    partition_elements: Sequence[int],
    bucket_elements: int,
    element_bytes: int,
) -> PartitionLayout:
    """Cut the gradients into buckets of at most `bucket_elements`, the last one first.

    Args:
        parameters: In order of use, of all groups; at least one.
        partition_elements: Size of one rank's partition, for each group.
        bucket_elements: At least 1.
        element_bytes: Bytes of one element on the wire.
    """
    buckets: list[Bucket] = []
    runs: list[tuple[Run, ...]] = []
    begin = 0
    for cuts in _buckets(parameters, partition_elements, bucket_elements):
        elements = sum(cut.length for cut in cuts)
        pieces = []
        offset = 0
        for cut in cuts:
            pieces.append(Piece(cut.parameter, cut.begin, cut.length, offset))
            offset += cut.length
        buckets.append(Bucket(len(buckets), 0, begin, elements, 1, tuple(pieces)))
        runs.append(tuple(_runs(cuts, partition_elements)))
        begin += elements
    specs = tuple(ParameterSpec(p.elements, 0, 1, element_bytes) for p in parameters)
    largest = max(bucket.elements for bucket in buckets) * element_bytes
    layout = Layout(specs, (Space(0, 1, element_bytes, begin),), tuple(buckets), largest)
    return PartitionLayout(layout, tuple(runs))


@dataclass(frozen=True, slots=True, order=True)
class _Cut:
    """A part of one parameter in one bucket and one partition; sorted as it lies in the bucket."""

    owner: int
    group: int
    flat_begin: int
    length: int
    parameter: int
    begin: int


def _buckets(
    parameters: Sequence[FlatParameter], partition_elements: Sequence[int], capacity: int
) -> Iterator[list[_Cut]]:
    cuts: list[_Cut] = []
    free = capacity
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        size = partition_elements[parameter.group]
        end = parameter.begin + parameter.elements
        # From the end on, as the flattened group is filled: what comes next then lies before it.
        while end > parameter.begin:
            owner = (end - 1) // size
            begin = max(parameter.begin, owner * size, end - free)
            offset = begin - parameter.begin
            cuts.append(_Cut(owner, parameter.group, begin, end - begin, index, offset))
            free -= end - begin
            end = begin
            if free == 0:
                yield sorted(cuts)
                cuts, free = [], capacity
    if cuts:
        yield sorted(cuts)


def _runs(cuts: Sequence[_Cut], partition_elements: Sequence[int]) -> Iterator[Run]:
    offset = 0
    first = cuts[0]
    length = 0
    for cut in cuts:
        continues = (cut.owner, cut.group, cut.flat_begin) == (
            first.owner,
            first.group,
            first.flat_begin + length,
        )
        if length and not continues:
            yield _run(first, length, offset, partition_elements)
            offset += length
            first, length = cut, 0
        length += cut.length
    yield _run(first, length, offset, partition_elements)


def _run(first: _Cut, length: int, offset: int, partition_elements: Sequence[int]) -> Run:
    begin = first.flat_begin - first.owner * partition_elements[first.group]
    return Run(first.owner, first.group, begin, length, offset)
