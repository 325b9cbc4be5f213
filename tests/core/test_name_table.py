"""Names of bytes over time."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from streamguard._core import NameTable

BLOCK = 7
BYTES = 24
KEPT = 8
RANGES = st.tuples(st.integers(0, BYTES), st.integers(0, BYTES)).map(sorted)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), RANGES, st.sampled_from("abc"), st.integers(1, 3)),
        st.tuples(st.just("forget"), RANGES, st.just(""), st.just(0)),
    ),
    max_size=60,
)


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

    assert (len(names), names.names_in_use()) == (1, KEPT)
    assert names.lookup(0, 64, 992, BLOCK) == [((0, 64), (0, 64), "step 992")]
    assert names.lookup(0, 64, 991, BLOCK) == []


def test_a_repeated_name_keeps_its_first_op() -> None:
    """Naming the same bytes the same way again changes nothing."""
    names = NameTable()
    for op in range(1, 100):
        names.add(0, 8, "weight", op, BLOCK)
    names.add(0, 8, "gradient", 100, BLOCK)

    assert names.lookup(0, 8, 99, BLOCK) == [((0, 8), (0, 8), "weight")]


class ByteByByte:
    """The same table: for each byte a list of (since, block, is first of it, (whole, text))."""

    def __init__(self) -> None:
        self.versions: dict[int, list[tuple[int, int, bool, object]]] = defaultdict(list)

    def add(self, begin: int, end: int, text: str, since: int, block: int) -> None:
        """A byte that has this name already keeps it."""
        for byte in range(begin, end):
            versions = self.versions[byte]
            name = ((begin, end), text)
            if versions and versions[-1][1] == block and versions[-1][3] == name:
                continue
            is_first = not versions or versions[-1][1] != block
            versions.append((since, block, is_first, name))
            del versions[:-KEPT]

    def forget(self, begin: int, end: int) -> None:
        """The bytes have no name."""
        for byte in range(begin, end):
            self.versions.pop(byte, None)

    def lookup(self, at: int, block: int) -> dict[int, object]:
        """Return the name of every byte that has one."""
        found = {}
        for byte, versions in self.versions.items():
            of_block = [version for version in versions if version[1] == block]
            by_then = [name for since, _, _, name in of_block if since <= at]
            first = [name for _, _, is_first, name in of_block if is_first]
            if by_then or first:
                found[byte] = by_then[-1] if by_then else first[0]
        return found

    def names(self) -> set[object]:
        """Return the names of all versions with the op of the call that gave each."""
        return {(since, name) for all_ in self.versions.values() for since, _, _, name in all_}


@settings(max_examples=300, deadline=None)
@given(CALLS)
def test_random_names_are_those_of_a_table_byte_by_byte(
    calls: list[tuple[str, list[int], str, int]],
) -> None:
    """What any op of any block would call each byte, and how many names are kept for it."""
    names, oracle = NameTable(), ByteByByte()
    for op, (call, (begin, end), text, block) in enumerate(calls, start=1):
        if call == "add":
            names.add(begin, end, text, op, block)
            oracle.add(begin, end, text, op, block)
        else:
            names.forget(begin, end)
            oracle.forget(begin, end)
    for at in range(0, len(calls) + 1, 3):
        for block in (1, 2, 3):
            found = {}
            for (begin, end), whole, text in names.lookup(0, BYTES, at, block):
                found.update(dict.fromkeys(range(begin, end), (whole, text)))
            assert found == oracle.lookup(at, block)
    assert names.names_in_use() == len(oracle.names())
