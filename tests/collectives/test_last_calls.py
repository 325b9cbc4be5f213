"""The last calls of ranks that end are compared, whoever ends first."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from streamguard.collectives import overseer, succession, watch
from streamguard.collectives.record import names_path
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


@pytest.fixture
def _fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever ends from now on does so with an error."""
    monkeypatch.setattr(sys, "last_value", RuntimeError("connection reset"), raising=False)


def _kill(killed: SyntheticRank, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a rank's process be gone, with what it has written by now."""
    world = list(range(killed.world_size))
    about = {"rank": killed.rank, "world_size": len(world), "pid": killed.rank, "run": "synthetic"}
    group = {"number": 1, "key": "0", "name": "default_pg", "ranks": world, "rank": killed.rank}
    lines = [{"kind": "start", **about}, {"kind": "group", **group}]
    names_path(killed.ring_path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    store, key = killed.watch._store, f"s/{killed.rank}"
    state = json.loads(store.get(key)) | {"pid": killed.rank}
    store.set(key, json.dumps(state).encode())
    for module in (overseer, succession):
        monkeypatch.setattr(module, "is_alive", lambda pid: pid != killed.rank)


@pytest.mark.parametrize("dead", [0, 1])
@pytest.mark.parametrize("last", [8, 9])
@pytest.mark.usefixtures("_fails")
def test_the_calls_of_a_killed_rank_come_from_its_file(
    dead: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It told one call of three before it died; the other rank has begun a fourth and fails."""
    ranks = _ranks(2, tmp_path)
    for rank in ranks:
        rank.call(4)
        rank.watch.tick()
        rank.call(6)
        rank.call(last if rank.rank == 1 else 8)
    ranks[1 - dead].call(10)
    _kill(ranks[dead], monkeypatch)
    ranks[1 - dead].watch.end()

    assert _reports(tmp_path) == ([("SG310", [1], 2)] if last == 9 else [("SG314", [dead], 3)])


class _TerminatedError(Exception):
    pass


@pytest.mark.usefixtures("_fails")
def test_a_dead_rank_is_named_before_others_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launcher ends rank 0 while it waits for what rank 2, which still runs, may have to tell."""
    ranks = _ranks(3, tmp_path)
    for rank in ranks:
        rank.call(4)
        rank.watch.tick()
    ranks[0].call(8)
    _kill(ranks[1], monkeypatch)
    monkeypatch.setattr(watch, "LAST_WAIT_S", 600.0)

    def terminate(_: float) -> None:
        raise _TerminatedError

    monkeypatch.setattr(watch.time, "sleep", terminate)
    with pytest.raises(_TerminatedError):
        ranks[0].watch.end()

    assert _reports(tmp_path) == [("SG314", [1], 1)]


@pytest.mark.usefixtures("_fails")
def test_a_rank_that_has_told_nothing_yet_is_not_blamed(tmp_path: Path) -> None:
    """All ranks fail alike, and the watch of rank 2 has not had its first turn when rank 0 ends."""
    ranks = _ranks(3, tmp_path)
    for rank in ranks:
        rank.call(4)
    for rank in ranks[:2]:
        rank.watch.tick()
    ranks[0].watch.end()
    ranks[2].watch.tick()
    for rank in ranks[1:]:
        rank.watch.end()

    assert _reports(tmp_path) == []
