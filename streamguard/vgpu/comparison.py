"""Compares the results of two schedules, byte by byte, and reads the first elements that differ."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from streamguard.vgpu.results import NamedResult, RankResults

_FORMATS = {
    "float64": "d",
    "float32": "f",
    "float16": "e",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint8": "B",
    "bool": "?",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a schedule gave something else than the reference.

    Attributes:
        rank: The rank whose result differs.
        name: Name of the result.
        occurrence: Which of the values of this name, from 0.
        index: Of the element, one number per dimension; () for numbers and for what has no
            counterpart.
        expected: The element under the reference, as text.
        found: The element under the schedule, as text.
        elements: How many elements of this result differ.
    """

    rank: int
    name: str
    occurrence: int
    index: tuple[int, ...]
    expected: str
    found: str
    elements: int

    @property
    def place(self) -> str:
        """`parameters.0.weight[3, 1]`, with `(value 2)` where the name was used before."""
        index = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        again = f" (value {self.occurrence + 1})" if self.occurrence else ""
        return f"{self.name}{index}{again}"


def first_difference(
    reference: Sequence[RankResults], other: Sequence[RankResults]
) -> Difference | None:
    """Compare rank by rank, in the order in which the reference named its results."""
    others = {rank.rank: rank for rank in other}
    for expected in reference:
        if expected.rank not in others:
            first = expected.results[0]
            return _whole(expected.rank, first, "a value", "no result of this rank")
        difference = _of_rank(expected, others.pop(expected.rank))
        if difference is not None:
            return difference
    for extra in others.values():
        return _whole(extra.rank, extra.results[0], "no result of this rank", "a value")
    return None


def _of_rank(reference: RankResults, other: RankResults) -> Difference | None:
    found = {result.key: result for result in other.results}
    for expected in reference.results:
        counterpart = found.pop(expected.key, None)
        if counterpart is None:
            return _whole(reference.rank, expected, "a value", "not named")
        if (expected.dtype, expected.shape) != (counterpart.dtype, counterpart.shape):
            return _whole(reference.rank, expected, _kind(expected), _kind(counterpart))
        if expected.data != counterpart.data:
            return _of_bytes(reference.rank, expected, counterpart)
    for extra in found.values():
        return _whole(reference.rank, extra, "not named", "a value")
    return None


def _kind(result: NamedResult) -> str:
    return f"{result.dtype}{list(result.shape)}"


def _whole(rank: int, result: NamedResult, expected: str, found: str) -> Difference:
    return Difference(rank, result.name, result.occurrence, (), expected, found, 1)


def _of_bytes(rank: int, expected: NamedResult, found: NamedResult) -> Difference:
    count = 1
    for size in expected.shape:
        count *= size
    width = len(expected.data) // count
    places = [
        place
        for place in range(count)
        if expected.data[place * width : (place + 1) * width]
        != found.data[place * width : (place + 1) * width]
    ]
    first = places[0]
    return Difference(
        rank=rank,
        name=expected.name,
        occurrence=expected.occurrence,
        index=_index(first, expected.shape),
        expected=_element(expected, first, width),
        found=_element(found, first, width),
        elements=len(places),
    )


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        place, position = divmod(place, size)
        index.append(position)
    return tuple(reversed(index))


def _element(result: NamedResult, place: int, width: int) -> str:
    data = result.data[place * width : (place + 1) * width]
    if result.dtype == "bfloat16":
        upper_half_of_float32 = struct.unpack("<f", bytes(2) + data)[0]
        return f"{upper_half_of_float32:.6g}"
    if result.dtype not in _FORMATS:
        return f"0x{data[::-1].hex()}"
    value = struct.unpack(f"<{_FORMATS[result.dtype]}", data)[0]
    return f"{value:.9g}" if isinstance(value, float) else str(value)
