"""Finds the first collective that the members of a group do not agree on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamguard.collectives.views import Stream


@dataclass(frozen=True, slots=True)
class Difference:
    """One position of a group where members differ.

    Attributes:
        position: Sequence number in the group.
        minority: Ranks that differ from most; from the lowest ranks' call where it is a draw.
        majority: The others.
        is_balance: The calls look alike, but what is sent is not what is expected.
    """

    position: int
    minority: tuple[int, ...]
    majority: tuple[int, ...]
    is_balance: bool = False


def first_difference(streams: Mapping[int, Stream], begin: int = 0) -> Difference | None:
    """Compare where all members have a record, from position `begin` on.

    Cost: one pass over the bytes of every stream; positions are looked at only where the digests
    differ.
    """
    if len(streams) < 2:
        return None
    first = max([begin, *(stream.base for stream in streams.values())])
    last = min(stream.end for stream in streams.values())
    if last <= first:
        return None
    windows = {
        rank: stream.fingerprints[first - stream.base : last - stream.base]
        for rank, stream in streams.items()
    }
    differing = _first_differing(windows)
    unbalanced = _first_unbalanced(streams, first, last)
    if differing is None and unbalanced is None:
        return None
    if differing is None or (unbalanced is not None and unbalanced < differing):
        assert unbalanced is not None
        return Difference(first + unbalanced, (), tuple(sorted(streams)), True)
    minority, majority = _sides({rank: int(window[differing]) for rank, window in windows.items()})
    return Difference(first + differing, minority, majority)


def _first_differing(windows: Mapping[int, np.ndarray]) -> int | None:
    samples: dict[bytes, np.ndarray] = {}
    for window in windows.values():
        digest = hashlib.blake2b(window.tobytes(), digest_size=16).digest()
        samples.setdefault(digest, window)
    if len(samples) == 1:
        return None
    reference, *others = samples.values()
    return min(int(np.argmax(reference != other)) for other in others)


def _first_unbalanced(streams: Mapping[int, Stream], first: int, last: int) -> int | None:
    total = np.zeros(last - first, np.uint64)
    for stream in streams.values():
        if len(stream.balances):
            total += stream.balances[first - stream.base : last - stream.base]
    wrong = np.flatnonzero(total)
    return int(wrong[0]) if len(wrong) else None


def _sides(values: Mapping[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    counts = Counter(values.values())
    lowest = {value: min(r for r, v in values.items() if v == value) for value in counts}
    usual = max(counts, key=lambda value: (counts[value], -lowest[value]))
    majority = tuple(sorted(rank for rank, value in values.items() if value == usual))
    minority = tuple(sorted(rank for rank, value in values.items() if value != usual))
    return minority, majority
