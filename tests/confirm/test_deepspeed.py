"""DeepSpeed 0.17.2: the refilled bucket is not only unordered, its bytes change."""

from __future__ import annotations

from pathlib import Path

from tests.deepspeed.test_table import CELLS, REFILL
from tests.enforce.test_deepspeed import train


def test_the_refill_of_a_bucket_under_reduction_is_seen(tmp_path: Path) -> None:
    """Under the eager schedule, which shows nothing by itself, each pair is tried on both ranks."""
    cell = next(cell for cell in CELLS if (cell.release, cell.arguments) == ("0.17.2", ()))

    done = train(cell, tmp_path, "--confirm", "--schedule", "eager")

    tried = {
        (race["first"]["op"], race["second"]["op"], race["known"]["id"]): race["tries"]
        for race in done.races
    }
    assert all(tries["count"] >= 1 for tries in tried.values()), tried
    refill = tried["c10d::allreduce_", "aten::copy_", REFILL]
    assert refill["showing"] == refill["count"] > 0
    assert 0 < refill["changed_bytes"] <= refill["compared_bytes"]
    assert "confirm   seen: bytes changed" in done.text
