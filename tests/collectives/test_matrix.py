"""Ranks that call different things are named before the call starts; their twins go through."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.collectives.launch import launch

# Which rank differs, and what a report calls the others.
ODD = {2: (1, "rank 0"), 4: (2, "ranks 0, 1, 3"), 8: (5, "ranks 0-4, 6, 7")}
PAIR = {2: 0, 4: 1, 8: 1}  # the other member of the group of two


def _raised(text: str) -> dict[str, list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("RAISED ")]
    assert len(lines) == 1, text
    return json.loads(lines[0].removeprefix("RAISED "))


@pytest.mark.parametrize(
    ("backend", "ranks"),
    [
        ("gloo", 4),
        pytest.param("nccl", 4, marks=pytest.mark.long),
        *(pytest.param(b, n, marks=pytest.mark.long) for b in ("gloo", "nccl") for n in (2, 8)),
    ],
)
def test_strict_names_the_rank_that_differs_on_every_rank(
    backend: str, ranks: int, tmp_path: Path
) -> None:
    """Each wrong program raises the table of who calls what on all members; no twin raises."""
    outcome = launch(
        "matrix.py", backend, ranks=ranks, output=tmp_path, STREAMGUARD_COLLECTIVES="strict",
        STREAMGUARD_VGPU_VALUES="0", STREAMGUARD_HANG_AFTER="60",
    )  # fmt: skip
    assert outcome.statuses == [0] * ranks, outcome.text[-4000:]
    by_rank = [_raised(text) for text in outcome.texts]
    odd, all_others = ODD[ranks]
    wrong = []
    for name in by_rank[0]:
        is_pair = "group of two" in name
        members = (PAIR[ranks], odd) if is_pair else range(ranks)
        others = f"rank {PAIR[ranks]}" if is_pair else all_others
        for rank in members:
            clean, refused = by_rank[rank][name]
            if clean:
                wrong.append(f"{name}: the clean twin raised on rank {rank}: {clean}")
            if "SG310 collective #" not in refused:
                wrong.append(f"{name}: nothing was raised on rank {rank}: {refused}")
            elif name.startswith("sizes: all_to_all"):
                if refused.count("all_to_all") < 2:
                    wrong.append(f"{name}: {refused}")
            elif not re.search(rf"\n  rank {odd}: \S", refused):
                if not (name.startswith(("root", "sizes")) and f"rank {odd}" in refused):
                    wrong.append(f"{name}: rank {odd} is not named: {refused}")
            elif f"\n  {others}: " not in refused and not name.startswith(("root", "sizes")):
                wrong.append(f"{name}: the others are not named together: {refused}")

    assert len(by_rank[0]) >= 40
    assert wrong == []
