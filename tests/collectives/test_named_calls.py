"""A report calls the memory of a call what the hooks call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamguard.collectives import watch
from streamguard.collectives.buffer_names import BufferNames
from tests.collectives.synthetic import BUFFER, CountingStore, SyntheticRank


def test_a_difference_names_the_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 reduces another size, of a buffer that was named before the call; rank 0 names none.

    A name that the memory got after the call is not shown.
    """
    monkeypatch.setattr(watch, "LAST_WAIT_S", 0.0)
    store = CountingStore()
    ranks = [SyntheticRank(rank, 2, tmp_path, store) for rank in range(2)]
    ranks[1].buffers.add(BUFFER - 64, BUFFER + 4096, "ipg_buckets[0].buffer[1]", 900)
    ranks[1].buffers.add(BUFFER, BUFFER + 4096, "a later tensor", 5000)
    for rank in ranks:
        rank.call(8 + rank.rank)
    for rank in reversed(ranks):
        rank.watch.end()
    text = json.loads((tmp_path / "desync.jsonl").read_text())["text"]

    assert "rank 0: all_reduce sum float32 [8]  at train.py:20" in text
    assert "rank 1: all_reduce sum float32 [9] of ipg_buckets[0].buffer[1]  at train.py:20" in text


def test_the_newest_name_that_covers_the_bytes_wins() -> None:
    """A part of a buffer has the buffer's name, bytes beyond its end have none."""
    names = BufferNames()
    assert names.add(100, 200, "first", 10)
    assert names.add(100, 200, "second", 20)
    assert not names.add(100, 200, "second", 30)

    assert [names.at(100, 100, t) for t in (5, 10, 19, 20)] == ["", "first", "first", "second"]
    assert (names.at(150, 50, 40), names.at(150, 51, 40), names.at(99, 2, 40)) == ("second", "", "")
