"""Names of bytes over time."""

from __future__ import annotations

from streamguard._core import NameTable

BLOCK = 7


def test_lookup_gives_the_newest_name_that_was_valid_at_the_op() -> None:
    """A later name hides the earlier one, but not for earlier ops."""
    names = NameTable()
    names.add(0, 100, "bucket 0", 1, BLOCK)
    names.add(20, 40, "gradient", 10, BLOCK)

    assert names.lookup(0, 100, 9, BLOCK) == [((0, 100), (0, 100), "bucket 0")]
    assert names.lookup(10, 50, 10, BLOCK) == [
        ((10, 20), (0, 100), "bucket 0"),
        ((20, 40), (20, 40), "gradient"),
        ((40, 50), (0, 100), "bucket 0"),
    ]


def test_a_blocks_first_name_holds_for_its_earlier_ops_too() -> None:
    """What was named after its first op is called so; bytes that had a name keep it."""
    names = NameTable()
    names.add(0, 10, "bucket 0", 5, BLOCK)
    names.add(0, 20, "gradient", 10, BLOCK)

    assert names.lookup(0, 20, 4, BLOCK) == [
        ((0, 10), (0, 10), "bucket 0"),
        ((10, 20), (0, 20), "gradient"),
    ]


def test_a_name_belongs_to_one_block() -> None:
    """Blocks that held the bytes before and after have names of their own, or none."""
    names = NameTable()
    names.add(0, 64, "bucket 0", 5, BLOCK)
    names.add(0, 64, "activation", 9, BLOCK + 1)

    assert names.lookup(0, 64, 20, BLOCK) == [((0, 64), (0, 64), "bucket 0")]
    assert names.lookup(0, 64, 6, BLOCK + 1) == [((0, 64), (0, 64), "activation")]
    assert names.lookup(0, 64, 20, BLOCK + 2) == []


def test_forgotten_bytes_have_no_name() -> None:
    """A free in the middle leaves the names on both sides."""
    names = NameTable()
    names.add(0, 30, "block", 1, BLOCK)

    names.forget(10, 20)

    assert names.lookup(0, 30, 5, BLOCK) == [
        ((0, 10), (0, 30), "block"),
        ((20, 30), (0, 30), "block"),
    ]


def test_memory_follows_the_ranges_and_not_the_number_of_names() -> None:
    """A buffer renamed at every step keeps eight names; what is older has none."""
    names = NameTable()
    for step in range(1, 1000):
        names.add(0, 64, f"step {step}", step, BLOCK)

    assert len(names) == 1
    assert names.lookup(0, 64, 992, BLOCK) == [((0, 64), (0, 64), "step 992")]
    assert names.lookup(0, 64, 991, BLOCK) == []


def test_a_repeated_name_keeps_its_first_op() -> None:
    """Naming the same bytes the same way again changes nothing."""
    names = NameTable()
    for op in range(1, 100):
        names.add(0, 8, "weight", op, BLOCK)
    names.add(0, 8, "gradient", 100, BLOCK)

    assert names.lookup(0, 8, 99, BLOCK) == [((0, 8), (0, 8), "weight")]
