"""Bytes on the wire and streams in use, from the virtual GPU's own log of what was called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_START = re.compile(r"^collective_start (\w+)\((\d+),(\w+)\)", re.MULTILINE)
_STREAM = re.compile(r"\bstream=(\d+)", re.MULTILINE)
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
# A norm, an overflow flag: collectives of fixed size, which the bound does not speak of.
_SMALL_BYTES = 64


@dataclass(frozen=True, slots=True)
class Wire:
    """What one rank sent.

    Attributes:
        gradients: Bytes sent by collectives that reduce.
        parameters: Bytes sent by all-gathers.
        small: Bytes sent by reductions of at most 64 bytes.
        calls: Number of collectives, by kind.
    """

    gradients: int
    parameters: int
    small: int
    calls: Mapping[str, int]


def streams_in(log: str) -> int:
    """Number of streams that were used; the schedules number them in this way."""
    return max((int(number) for number in _STREAM.findall(log)), default=-1) + 1


def wire_of(log: str, *, ranks: int) -> Wire:
    """Count what a rank sends by each collective's least possible traffic.

    A rank sends (N-1)/N of the bytes that it reduces or gathers, twice that for an all-reduce,
    which is a reduce-scatter followed by an all-gather.

    Source:
        Optimization of Collective Communication Operations in MPICH, Thakur et al. 2005, section 4.
    """
    gradients = parameters = small = 0
    calls: dict[str, int] = {}
    for kind, count, dtype in _START.findall(log):
        calls[kind] = calls.get(kind, 0) + 1
        size = int(count) * _BYTES.get(dtype, 1)
        if kind == "reduce_scatter":
            gradients += (ranks - 1) * size
        elif kind == "all_gather":
            parameters += (ranks - 1) * size
        elif kind == "all_reduce" and size <= _SMALL_BYTES:
            small += 2 * (ranks - 1) * size // ranks
        elif kind == "all_reduce":
            gradients += 2 * (ranks - 1) * size // ranks
        elif kind == "reduce":
            gradients += (ranks - 1) * size // ranks
    return Wire(gradients, parameters, small, calls)
