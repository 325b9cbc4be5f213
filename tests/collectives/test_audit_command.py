"""`streamguard audit`: its budget, its picture, and what it refuses before a command starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from streamguard.collectives.record import names_path
from tests.cli.command import streamguard
from tests.collectives.launch import launch
from tests.collectives.synthetic import CountingStore, SyntheticRank


def _record(
    directory: Path, *, calls: int, started: float = 1.0, pid: int = 0, scheme: str = "DDP"
) -> None:
    """Rank 0 of two: one step with 1000 gradients, reduced in calls of 1000 elements."""
    directory.mkdir(exist_ok=True)
    rank = SyntheticRank(0, 2, directory, CountingStore())
    for _ in range(calls):
        rank.call(1000)
    lines: list[dict[str, object]] = [
        {"kind": "start", "rank": 0, "world_size": 2, "pid": pid, "run": "job", "time": started},
        {"kind": "group", "number": 1, "key": "0", "name": "dp", "ranks": [0, 1], "rank": 0},
        {"kind": "site", "number": 20, "frames": [["engine.py", 20, "allreduce_bucket"]]},
        {"kind": "scheme", "name": scheme, "ranks": 2, "parameters": 1000},
        {"kind": "end", "time": started, "steps": 1},
    ]
    path = directory / f"collectives-0-{pid}.ring"
    rank.ring_path.rename(path)
    names_path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(("limit", "status"), [("1.9", 66), ("2", 0)])
def test_a_budget_decides_the_status(limit: str, status: int, tmp_path: Path) -> None:
    """The gradients are reduced twice: twice the minimum is within 2 and above 1.9."""
    _record(tmp_path / "run", calls=2)
    done = streamguard("audit", "--from", "run", "--max-ratio", limit, cwd=tmp_path)

    assert done.returncode == status, done.stderr
    assert "gradients: all_reduce 2.00 × minimum: 8000 bytes sent a step, 4000 bytes needed" in (
        done.stderr
    )


def test_the_process_that_started_last_is_audited(tmp_path: Path) -> None:
    """A directory of two runs; process ids do not tell which came first."""
    _record(tmp_path / "run", calls=2, started=1.0, pid=7)
    _record(tmp_path / "run", calls=1, started=2.0, pid=9)
    _record(tmp_path / "run", calls=3, started=0.5, pid=5)
    done = streamguard("audit", "--from", "run", "--json", cwd=tmp_path)

    assert [row["calls"] for row in json.loads(done.stdout)["rows"]] == [1]


def test_the_backward_passes_of_fsdp_are_counted(tmp_path: Path) -> None:
    """3 micro-batches a step and once 2: 2 layers of 2048 parameters, 4 bytes each.

    Each micro-batch gathers them twice and reduces the gradients once; the 3 audited steps have 8.
    """
    outcome = launch("fsdp_accumulated.py", ranks=2, output=tmp_path / "run", STREAMGUARD_AUDIT="1")
    assert outcome.statuses == [0, 0], outcome.text[-3000:]
    done = streamguard("audit", "--from", "run", "--json", cwd=tmp_path)
    audit = json.loads(done.stdout)
    found = {c["phase"]: (c["sent_bytes"], c["minimum_bytes"]) for c in audit["comparisons"]}

    assert audit["scheme"]["accumulation"] == 3
    assert found == {
        "gradients": (8192 * 8 / 3, 8192 * 3),
        "parameters": (2 * 8192 * 8 / 3, 2 * 8192 * 3),
    }


def test_micro_batches_can_be_told(tmp_path: Path) -> None:
    """ZeRO-2 needs its gradients once a micro-batch: 4 calls are twice the minimum of 2 of them."""
    _record(tmp_path / "run", calls=4, scheme="ZeRO-2")
    done = streamguard("audit", "--from", "run", "--accumulation", "2", "--json", cwd=tmp_path)

    assert [c["ratio"] for c in json.loads(done.stdout)["comparisons"]] == [4.0]


def test_the_chart_is_a_picture(tmp_path: Path) -> None:
    """A PNG beside the text."""
    _record(tmp_path / "run", calls=2)
    done = streamguard("audit", "--from", "run", "--chart", "traffic.png", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "traffic.png").read_bytes().startswith(b"\x89PNG")
    assert "SUMMARY collectives: 2 calls in 1 steps audited, worst ratio 2.00" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--max-ratio", "nan"),
        ("--max-ratio", "inf"),
        ("--max-ratio", "-1"),
        ("--max-ratio", "0"),
        ("--rank", "-1"),
        ("--scheme", "DDP", "--parameters", "0"),
        ("--scheme", "DDP", "--parameters", "9", "--accumulation", "0"),
        ("--chart", "missing/traffic.png"),
        ("--chart", "traffic.unknown"),
        ("--chart", "."),
    ],
)
def test_wrong_options_are_refused_before_the_command(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """Status 2, one message, and nothing has run."""
    command = (sys.executable, "-c", "open('ran', 'w')")
    done = streamguard("audit", *options, "--", *command, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert options[0] in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
