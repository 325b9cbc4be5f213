"""Runs examples/train_zero2.py under one DeepSpeed release and schedule; reads what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SCRIPT = "examples/train_zero2.py"
WITHOUT_EDGE = "tests/deepspeed/without_edge.py"


@dataclass(frozen=True)
class Training:
    """What one run printed and recorded."""

    status: int
    losses: list[float]
    text: str
    records: list[dict[str, object]] = field(repr=False, default_factory=list)
    folder: Path | None = None

    def of_type(self, name: str) -> list[dict[str, object]]:
        return [record for record in self.records if record["type"] == name]

    @property
    def races(self) -> list[dict[str, object]]:
        return self.of_type("race")


def environment_of(release: str) -> dict[str, str]:
    """Return an environment in which `import deepspeed` gives `release`."""
    folder = ROOT / ".deepspeed" / release
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    environment["OMP_NUM_THREADS"] = "1"
    if folder.is_dir():
        environment["PYTHONPATH"] = str(folder)
        return environment
    installed = list((BIN.parent / "lib").glob(f"python*/site-packages/deepspeed-{release}.dist-*"))
    if not installed:
        pytest.fail(f"DeepSpeed {release} is not installed: make test-deepspeed sets it up")
    environment.pop("PYTHONPATH", None)
    return environment


def train(
    release: str,
    *arguments: str,
    output: Path,
    schedule: str = "eager",
    ranks: int = 2,
    accesses: str | None = None,
    expected_status: int | None = None,
    reducer: str | None = None,
    without_edge: str | None = None,
    trace: Path | None = None,
) -> Training:
    """Run the example and return its losses (rank 0), findings and report.

    `without_edge` names a method of the repair that does nothing in this run.
    """
    options = ["--vgpu", str(ranks), "--schedule", schedule, "--output", str(output)]
    if accesses:
        options += ["--accesses", accesses]
    if trace:
        options += ["--trace", str(trace)]
    if reducer:
        options += ["--reducer", reducer]
    launcher = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", str(ranks)]
    program = [WITHOUT_EDGE, without_edge, SCRIPT] if without_edge else [SCRIPT]
    done = subprocess.run(
        [str(BIN / "streamguard"), "run", *options, "--", *launcher, *program, *arguments],
        cwd=ROOT, env=environment_of(release), capture_output=True, text=True,
    )  # fmt: skip
    text = done.stdout + done.stderr
    printed = [line for line in done.stdout.splitlines() if line.startswith("losses: ")]
    assert len(printed) == 1, f"no line of losses from rank 0:\n{text[-6000:]}"
    if expected_status is not None:
        assert done.returncode == expected_status, text[-6000:]
    return Training(
        status=done.returncode,
        losses=json.loads(printed[0].removeprefix("losses: ")),
        text=text,
        records=merged_records(output),
    )


def report_of(*command: str) -> str:
    """What `streamguard show` or `replay` prints."""
    return subprocess.run(
        [str(BIN / "streamguard"), *command], capture_output=True, text=True
    ).stdout  # fmt: skip


def merged_records(output: Path) -> list[dict[str, object]]:
    done = subprocess.run(
        [str(BIN / "streamguard"), "merge", "--json", str(output)],
        capture_output=True, text=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def names(race: dict[str, object], side: str) -> list[str]:
    """Return the names of the overlap's bytes as the first or second access saw them."""
    return [str(named["name"]) for named in race["overlap"][f"names_{side}"]]


def stream(race: dict[str, object], side: str) -> str:
    """Return the name of the stream of the first or second access."""
    return str(race[side]["stream"]["name"])
