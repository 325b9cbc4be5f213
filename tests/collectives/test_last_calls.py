"""The last calls of ranks that end are compared, whoever ends first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamguard.collectives import watch
from tests.collectives.synthetic import CountingStore, SyntheticRank


@pytest.fixture(autouse=True)
def _nobody_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ranks run in this thread: one that waits for another waits in vain."""
    monkeypatch.setattr(watch, "LAST_WAIT_S", 0.0)


def _ranks(count: int, directory: Path) -> list[SyntheticRank]:
    store = CountingStore()
    return [SyntheticRank(rank, count, directory, store) for rank in range(count)]


def _reports(directory: Path) -> list[tuple[str, list[int], int]]:
    path = directory / "desync.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    entries = map(json.loads, lines)
    return [(e["code"], e["culprits"], e["position"]) for e in entries]


@pytest.mark.parametrize("last", [8, 9])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_ranks_that_end_after_their_only_call(
    last: int, order: tuple[int, ...], tmp_path: Path
) -> None:
    """Nobody has told anything before it ends: a difference is reported once, in any order."""
    ranks = _ranks(3, tmp_path)
    for rank in ranks:
        rank.call(last if rank.rank == 1 else 8)
    for number in order:
        ranks[number].watch.end()

    assert _reports(tmp_path) == ([] if last == 8 else [("SG310", [1], 0)])


@pytest.mark.parametrize("last", [8, 9])
def test_a_rank_calls_after_the_reader_has_ended(last: int, tmp_path: Path) -> None:
    """Rank 0 told its calls in time and ended; rank 1 makes the last of its own only then."""
    ranks = _ranks(2, tmp_path)
    for rank in ranks:
        rank.call(4)
        rank.watch.tick()
    ranks[0].call(8)
    ranks[0].watch.end()
    ranks[1].call(last)
    ranks[1].watch.end()

    assert _reports(tmp_path) == ([] if last == 8 else [("SG310", [1], 1)])


@pytest.mark.parametrize("last", [8, 9])
def test_a_reader_that_ends_hands_on_calls_from_the_middle(last: int, tmp_path: Path) -> None:
    """It leaves its newest 2,048 calls: the next reader compares from there, at the right place."""
    ranks = _ranks(2, tmp_path)
    for rank in ranks:
        for _ in range(3000):
            rank.call(4)
        rank.watch.tick()
    ranks[0].call(8)
    ranks[0].watch.end()
    ranks[1].call(last)
    ranks[1].watch.end()

    assert _reports(tmp_path) == ([] if last == 8 else [("SG310", [1], 3000)])


@pytest.mark.parametrize("last", [8, 9])
def test_calls_behind_a_gap_are_compared(last: int, tmp_path: Path) -> None:
    """More calls than the ring holds between two ticks: what it still holds is compared."""
    ranks = _ranks(2, tmp_path)
    for rank in ranks:
        rank.call(4)
        rank.watch.tick()
        for _ in range(5000):
            rank.call(4)
        rank.call(last if rank.rank == 1 else 8)
        rank.watch.tick()
    ranks[0].watch.tick()

    assert _reports(tmp_path) == ([] if last == 8 else [("SG310", [1], 5001)])


def test_ranks_that_end_late_find_everything_compared(tmp_path: Path) -> None:
    """Where the reader had compared all calls nobody reads them again."""
    ranks = _ranks(4, tmp_path)
    for rank in ranks:
        rank.call(4)
        rank.watch.tick()
    ranks[0].watch.end()
    for rank in ranks[1:]:
        rank.watch.end()
    store = ranks[0].watch._store

    assert isinstance(store, CountingStore)
    assert store.operations["compare_set"] == 0
    assert _reports(tmp_path) == []


def test_two_readers_report_a_difference_once(tmp_path: Path) -> None:
    """The second reader compares from the start and finds what the first one has reported."""
    ranks = _ranks(2, tmp_path)
    for rank in ranks:
        rank.call(9 if rank.rank == 1 else 8)
        rank.watch.tick()
    ranks[0].watch.end()
    ranks[1].call(4)
    ranks[1].watch.end()

    assert ranks[1].watch._overseer is not None
    assert _reports(tmp_path) == [("SG310", [1], 0)]
