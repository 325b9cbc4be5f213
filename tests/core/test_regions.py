"""Exact overlap of regions, against byte sets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streamguard._core import Region, covers, first_overlap

Shape = tuple[int, int, int, int]

_SHAPES = st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(1, 11), st.integers(0, 12))
_WINDOWS = st.tuples(st.integers(0, 90), st.integers(0, 90))


def bytes_of(shape: Shape) -> set[int]:
    """Every byte of begin, width, pitch, rows."""
    begin, width, pitch, rows = shape
    return {begin + row * pitch + byte for row in range(rows) for byte in range(width)}


@settings(max_examples=3000, deadline=None)
@given(_SHAPES, _SHAPES, _WINDOWS)
def test_overlap_is_decided_as_byte_sets_decide_it(
    a: Shape, b: Shape, window: tuple[int, int]
) -> None:
    """The first shared byte is the lowest one; the run holds shared bytes only."""
    a_region, b_region = Region(*a).normalized(), Region(*b).normalized()
    touched = bytes_of(a) & bytes_of(b) & set(range(*window))

    run = first_overlap(a_region, b_region, window)

    assert (run is None) == (not touched)
    if run is not None:
        assert run[0] == min(touched)
        assert set(range(*run)) <= touched


@settings(max_examples=3000, deadline=None)
@given(_SHAPES, _SHAPES, _WINDOWS)
def test_covers_never_claims_bytes_that_are_not_there(
    outer: Shape, inner: Shape, window: tuple[int, int]
) -> None:
    """A yes is always right; two plain ranges are decided exactly."""
    needed = bytes_of(inner) & set(range(*window))
    outer_region, inner_region = Region(*outer).normalized(), Region(*inner).normalized()

    claimed = covers(outer_region, inner_region, window)

    if claimed:
        assert needed <= bytes_of(outer)
    if outer_region.rows <= 1 and inner_region.rows <= 1:
        assert claimed == (needed <= bytes_of(outer))


def test_overlap_of_long_rows_is_arithmetic() -> None:
    """Two regions of 2**40 rows that meet far out: found without walking them."""
    far = 1 << 40
    a = Region(0, 1, 3, far)
    b = Region(1, 1, (1 << 33) + 2, 1 << 7)

    met = first_overlap(a, b)

    expected = next(at for at in range(1, 1 << 41, (1 << 33) + 2) if at % 3 == 0)
    assert met == (expected, expected + 1)


def test_interleaved_columns_never_meet() -> None:
    """Two columns of one matrix share bounds and no byte."""
    left = Region(0, 4, 4096, 4096)
    right = Region(4, 4, 4096, 4096)

    assert first_overlap(left, right) is None
    assert first_overlap(left, Region(3, 4, 4096, 4096)) == (3, 4)
