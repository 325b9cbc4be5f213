"""Races are tried by delaying their first op: changed bytes are seen, equal ones are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.enforce.running import Run, run

CASES = "tests/confirm/cases.py"
# Code, first op, second op, in the order of the program. Each pair is 4096 bytes.
PAIRS = [
    ("SG001", "aten::fill_", "aten::add"),
    ("SG002", "aten::mul", "aten::fill_"),
    ("SG003", "aten::fill_", "aten::fill_"),
    ("SG004", "aten::mul", "aten::mul"),
    ("SG005", "aten::copy_", "aten::fill_"),
    ("SG005", "aten::copy_", "aten::add"),
]
MOST_TRIES = 5


def tries_of(done: Run) -> list[tuple[tuple[str, str, str], dict[str, Any]]]:
    """Each pair with what trying it showed."""
    return [
        ((race["code"], race["first"]["op"], race["second"]["op"]), race["tries"])
        for race in done.of_type("race")
    ]


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_changed_bytes_are_seen_in_the_first_try(schedule: str, tmp_path: Path) -> None:
    """Whole regions differ, and the pair is not tried again."""
    done = run(tmp_path, CASES, "changing", options=("--confirm", "--schedule", schedule))

    seen = {"count": 1, "showing": 1, "compared_bytes": 4096}
    assert [pair for pair, _ in tries_of(done)] == PAIRS
    for pair, tries in tries_of(done):
        # 1.0 and 3.0 share bytes: of each float at least one differs.
        assert 1024 <= tries.pop("changed_bytes") <= 4096, pair
        assert tries == seen, pair
    assert done.status == 66
    assert done.summary["confirmed"] == len(PAIRS)
    assert "bytes changed by 6 of 6 races" in done.text
    assert done.text.count("confirm   seen: bytes changed in 1 of 1 try") == len(PAIRS)


def test_equal_bytes_are_not_seen(tmp_path: Path) -> None:
    """The twin whose late op leaves the bytes that were there: every try is counted."""
    done = run(tmp_path, CASES, "same", options=("--confirm",))

    not_seen = {
        "count": MOST_TRIES, "showing": 0, "compared_bytes": 4096, "changed_bytes": 0
    }  # fmt: skip
    assert tries_of(done) == [(pair, not_seen) for pair in PAIRS]
    assert (done.status, done.summary["confirmed"]) == (66, 0)
    assert done.text.count("confirm   not seen in 5 tries with the first op delayed") == len(PAIRS)


def test_without_the_mode_nothing_is_said_of_tries(tmp_path: Path) -> None:
    """The same program only watched."""
    done = run(tmp_path, CASES, "changing")

    assert tries_of(done) == [(pair, None) for pair in PAIRS]
    assert done.summary["confirmed"] is None
    assert "  confirm " not in done.text and "confirmed=" not in done.text


def test_a_pair_that_comes_once_is_not_tried(tmp_path: Path) -> None:
    """Without a second occurrence nothing can be delayed."""
    program = tmp_path / "once.py"
    program.write_text(
        "import torch\n"
        "side = torch.cuda.Stream()\n"
        "x = torch.zeros(64, device='cuda')\n"
        "torch.cuda.synchronize()\n"
        "with torch.cuda.stream(side):\n"
        "    x.fill_(1)\n"
        "print([(x * 2).cpu().tolist()[:0]])\n"
    )

    done = run(tmp_path / "out", str(program), options=("--confirm",))

    none = {"count": 0, "showing": 0, "compared_bytes": 0, "changed_bytes": 0}
    assert tries_of(done) == [(("SG001", "aten::fill_", "aten::mul"), none)]
    assert "not seen in 0 tries: the pair was not met again" in done.text


def test_repaired_programs_are_left_alone(tmp_path: Path) -> None:
    """Without a race nothing is delayed."""
    done = run(tmp_path, CASES, "changing", "repaired", options=("--confirm",))

    assert (done.status, done.of_type("race"), done.summary["confirmed"]) == (0, [], 0)
