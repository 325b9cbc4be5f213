"""Names of bytes over time."""

from __future__ import annotations

from streamguard._core import NameTable


def test_lookup_gives_the_newest_name_that_was_valid_at_the_op() -> None:
    """A later name hides the earlier one, but not for earlier ops."""
    names = NameTable()
    names.add(0, 100, "bucket 0", 1)
    names.add(20, 40, "gradient", 10)

    assert names.lookup(0, 100, 9) == [((0, 100), (0, 100), "bucket 0")]
    assert names.lookup(10, 50, 10) == [
        ((10, 20), (0, 100), "bucket 0"),
        ((20, 40), (20, 40), "gradient"),
        ((40, 50), (0, 100), "bucket 0"),
    ]
    assert names.lookup(0, 100, 0) == []


def test_forgotten_bytes_have_no_name() -> None:
    """A free in the middle leaves the names on both sides."""
    names = NameTable()
    names.add(0, 30, "block", 1)

    names.forget(10, 20)

    assert names.lookup(0, 30, 5) == [
        ((0, 10), (0, 30), "block"),
        ((20, 30), (0, 30), "block"),
    ]


def test_memory_follows_the_ranges_and_not_the_number_of_names() -> None:
    """A buffer renamed at every step keeps its eight newest names."""
    names = NameTable()
    for step in range(1, 1000):
        names.add(0, 64, f"step {step}", step)

    assert len(names) == 1
    assert names.lookup(0, 64, 992) == [((0, 64), (0, 64), "step 992")]
    assert names.lookup(0, 64, 991) == []


def test_a_repeated_name_keeps_its_first_op() -> None:
    """Naming the same bytes the same way again changes nothing."""
    names = NameTable()
    for op in range(1, 100):
        names.add(0, 8, "weight", op)

    assert names.lookup(0, 8, 1) == [((0, 8), (0, 8), "weight")]
