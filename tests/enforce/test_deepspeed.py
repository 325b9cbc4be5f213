"""DeepSpeed's racy releases with enforced waits: the gradients of the synchronous training."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.deepspeed.test_table import CELLS, Cell
from tests.deepspeed.training import BIN, ROOT, environment_of, merged_records

PROGRAM = "tests/deepspeed/digest_training.py"
RACY = tuple(cell for cell in CELLS if cell.race is not None)
# Streams in the order of first use: default, the producers' or the reduction's, and those of NCCL.
EXTREMES = (
    "extreme:0,1",
    "extreme:1,0",
    "extreme:2,0",
    "extreme:0,2",
    "extreme:1,2",
    "extreme:2,1",
)


@dataclass(frozen=True)
class Outcome:
    """The gradients of all ranks, what was inserted, and what was left."""

    status: int
    gradients: tuple[str, ...]
    waits: list[dict[str, object]]
    races: list[dict[str, object]]
    text: str


def train(cell: Cell, output: Path, *options: str, arguments: tuple[str, ...] = ()) -> Outcome:
    """Train as the cell says, and digest every gradient that reached the optimizer."""
    ranks = str(cell.ranks)
    command = [
        str(BIN / "streamguard"), "run", "--vgpu", ranks, "--output", str(output), *options, "--",
        str(BIN / "torchrun"), "--standalone", "--nproc_per_node", ranks, PROGRAM,
        "--scenario", cell.scenario, *cell.arguments, *arguments,
    ]  # fmt: skip
    environment = environment_of(cell.release)
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [path, str(ROOT)]))
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    text = done.stdout + done.stderr
    gradients = tuple(sorted(re.findall(r"^gradients of rank .*$", done.stdout, re.MULTILINE)))
    assert len(gradients) == cell.ranks, text[-6000:]
    records = merged_records(output)
    return Outcome(
        done.returncode,
        gradients,
        [record for record in records if record["type"] == "wait"],
        [record for record in records if record["type"] == "race"],
        text,
    )


@functools.cache
def reference(cell: Cell) -> tuple[str, ...]:
    """The gradients of the same model on one stream, without overlap.

    Several producers would race without overlap as well.
    """
    scenario = "plain" if cell.scenario == "producers" else cell.scenario
    alike = replace(cell, scenario=scenario)
    with tempfile.TemporaryDirectory() as output:
        done = train(alike, Path(output), "--schedule", "eager", arguments=("--no-overlap",))
    assert (done.status, done.races) == (0, []), done.text[-4000:]
    return done.gradients


def test_racy_release_trains_as_without_overlap_when_waits_are_enforced(tmp_path: Path) -> None:
    """0.17.2 with the default stream ahead gives the gradients of the serial run, bit by bit.

    That its losses are wrong without the waits is shown in tests/deepspeed/test_losses.py.
    """
    cell = next(cell for cell in RACY if cell.release == "0.17.2")
    expected = reference(cell)

    enforced = train(cell, tmp_path / "enforced", "--schedule", "extreme:0,1", "--enforce")

    assert (enforced.status, enforced.races) == (0, [])
    assert enforced.gradients == expected
    assert {wait["known"]["id"] for wait in enforced.waits} == {cell.race}


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize("schedule", ["eager", "lazy", *EXTREMES])
@pytest.mark.parametrize("cell", RACY, ids=lambda cell: cell.id)
def test_every_racy_cell_gives_the_serial_gradients_when_waits_are_enforced(
    cell: Cell, schedule: str, tmp_path: Path
) -> None:
    """Every gradient of every rank, bit by bit, whatever runs late."""
    expected = reference(cell)

    enforced = train(cell, tmp_path / "enforced", "--schedule", schedule, "--enforce")

    assert (enforced.status, enforced.races) == (0, []), enforced.text[-4000:]
    assert enforced.gradients == expected
    assert enforced.waits


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize("cell", [c for c in CELLS if c.race is None], ids=lambda cell: cell.id)
def test_clean_cell_gets_no_wait(cell: Cell, tmp_path: Path) -> None:
    """Where nothing is missing nothing is put in."""
    done = train(cell, tmp_path / "out", "--schedule", "lazy", "--enforce")

    assert (done.status, done.races, done.waits) == (0, [], []), done.text[-4000:]
