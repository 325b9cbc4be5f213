"""Bytes on the wire and minima of schemes, computed by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from streamguard.collectives.theory import Scheme, wire_bytes


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "size", "expected"),
    [
        ("all_reduce", 800, 800, 4, Fraction(1200)),  # 2 * 3/4 * 800
        ("all_gather_into_tensor", 200, 800, 4, Fraction(600)),
        ("reduce_scatter_tensor", 800, 200, 4, Fraction(600)),
        ("all_to_all_single", 800, 800, 4, Fraction(600)),
        ("gather", 200, 800, 4, Fraction(600)),
        ("gather", 200, 0, 4, Fraction(600)),  # the same call on a rank that is not the root
        ("scatter", 0, 200, 4, Fraction(600)),
        ("broadcast", 800, 800, 4, Fraction(800)),
        ("send", 800, 800, 4, Fraction(800)),
        ("recv", 800, 800, 4, Fraction(0)),
        ("barrier", 0, 0, 4, Fraction(0)),
        ("all_reduce", 800, 800, 1, Fraction(0)),
        ("all_reduce", 100, 100, 3, Fraction(400, 3)),
    ],
)
def test_wire_bytes(op: str, inputs: int, outputs: int, size: int, expected: Fraction) -> None:
    """One rank's traffic by the best known algorithm."""
    assert wire_bytes(op, inputs, outputs, size) == expected


@pytest.mark.parametrize(
    ("name", "accumulation", "gradients", "parameters"),
    [
        ("DDP", 4, 3000, 0),  # 2 * 3/4 * 1000 * 2 bytes, once a step
        ("ZeRO-0", 4, 3000, 0),
        ("ZeRO-1", 4, 1500, 1500),
        ("ZeRO-2", 4, 6000, 1500),  # nothing can hold a sum over micro-batches
        ("ZeRO-3", 4, 6000, 12000),  # gathered for forward and backward of each
        ("FSDP", 1, 1500, 3000),
    ],
)
def test_minimum_of_a_step(name: str, accumulation: int, gradients: int, parameters: int) -> None:
    """N = 4 ranks, P = 1000 parameters of 2 bytes."""
    scheme = Scheme(name, 4, 1000, accumulation)

    assert (scheme.gradient_minimum(2), scheme.parameter_minimum(2)) == (gradients, parameters)
