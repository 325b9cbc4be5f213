"""Ranks that call different things are named before the call starts; their twins go through."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.collectives.launch import launch

RANKS = 4


def _raised(text: str) -> dict[str, list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("RAISED ")]
    assert len(lines) == 1, text
    return json.loads(lines[0].removeprefix("RAISED "))


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_strict_names_the_rank_that_differs_on_every_rank(backend: str, tmp_path: Path) -> None:
    """Each wrong program raises the table of who calls what on all members; no twin raises."""
    outcome = launch(
        "matrix.py", backend, ranks=RANKS, output=tmp_path, STREAMGUARD_COLLECTIVES="strict",
        STREAMGUARD_VGPU_VALUES="0", STREAMGUARD_HANG_AFTER="60",
    )  # fmt: skip
    assert outcome.statuses == [0] * RANKS, outcome.text[-4000:]
    by_rank = [_raised(text) for text in outcome.texts]
    wrong = []
    for name in by_rank[0]:
        members = (1, 2) if "group of two" in name else range(RANKS)
        others = "rank 1" if "group of two" in name else "ranks 0, 1, 3"
        for rank in members:
            clean, refused = by_rank[rank][name]
            if clean:
                wrong.append(f"{name}: the clean twin raised on rank {rank}: {clean}")
            if "SG310 collective #" not in refused:
                wrong.append(f"{name}: nothing was raised on rank {rank}: {refused}")
            elif name.startswith("sizes: all_to_all"):
                if refused.count("all_to_all") < 2:
                    wrong.append(f"{name}: {refused}")
            elif not re.search(r"\n  rank 2: \S", refused):
                if not (name.startswith(("root", "sizes")) and "rank 2" in refused):
                    wrong.append(f"{name}: rank 2 is not named: {refused}")
            elif f"\n  {others}: " not in refused and not name.startswith(("root", "sizes")):
                wrong.append(f"{name}: the others are not named together: {refused}")

    assert len(by_rank[0]) >= 35
    assert wrong == []
