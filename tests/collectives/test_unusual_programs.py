"""Correct programs that use torch.distributed in unusual ways are not reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.collectives.postmortem import report_left_over
from tests.collectives.launch import launch

RANKS = 3


@pytest.mark.parametrize(
    ("backend", "mode"),
    [
        ("gloo", "async"),
        *(
            pytest.param(backend, mode, marks=pytest.mark.long)
            for backend, mode in (("gloo", "strict"), ("nccl", "async"), ("nccl", "strict"))
        ),
    ],
)
def test_unusual_uses_are_silent(backend: str, mode: str, tmp_path: Path) -> None:
    """Groups of some ranks, objects, uneven and empty sizes, threads, tags, groups made again.

    Neither the ranks nor the comparison of their files after the job finds a difference.
    """
    outcome = launch(
        "unusual.py", backend, ranks=RANKS, output=tmp_path, STREAMGUARD_COLLECTIVES=mode,
        STREAMGUARD_HANG_AFTER="300",
    )  # fmt: skip
    report_left_over(tmp_path, "test")

    assert outcome.statuses == [0] * RANKS, outcome.text[-3000:]
    assert outcome.text.count("END") == RANKS
    assert "streamguard:" not in outcome.text
    assert not (tmp_path / "desync.jsonl").exists()
