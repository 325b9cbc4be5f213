"""What the comparison asks of the job's Store, counted: it grows with the number of ranks."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from streamguard.collectives import watch
from tests.collectives.synthetic import CountingStore, SyntheticRank

TICKS = 20
CALLS_PER_TICK = 5


def _traffic(world_size: int, directory: Path, *, is_staggered: bool) -> CountingStore:
    """A job of some ticks; its ranks end one after the other, or owe each other a call."""
    directory.mkdir()
    store = CountingStore()
    ranks = [SyntheticRank(rank, world_size, directory, store) for rank in range(world_size)]
    for tick in range(TICKS):
        for rank in ranks:
            for call in range(CALLS_PER_TICK):
                rank.call(64 + call, line=20 + tick)
            rank.watch.tick()
    if is_staggered:
        ranks[0].call(1)
    for rank in ranks:
        rank.watch.end()
    return store


@pytest.mark.parametrize("is_staggered", [False, True])
def test_traffic_grows_with_the_ranks(
    is_staggered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the ranks ask at most twice as often and send at most twice the bytes.

    What all ranks tell is written once and read once: no rank reads what the others wrote but one.
    """
    monkeypatch.setattr(watch, "LAST_WAIT_S", 0.0)
    sizes = (2, 4, 8, 16, 32)
    stores = [_traffic(size, tmp_path / str(size), is_staggered=is_staggered) for size in sizes]
    operations = [sum(store.operations.values()) for store in stores]
    sizes_bytes = [sum(store.sizes_bytes.values()) for store in stores]

    for smaller, larger in itertools.pairwise(operations):
        assert larger <= 2.1 * smaller, operations
    for smaller, larger in itertools.pairwise(sizes_bytes):
        assert larger <= 2.2 * smaller, sizes_bytes
    # A tick of a rank: its message is written, read and deleted, its state written and read, and it
    # looks for an alarm; every fifth tick it looks at the reader. The rest is for the end.
    assert operations[-1] <= 32 * (TICKS + 2) * 8, operations
