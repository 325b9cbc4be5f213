"""STREAMGUARD_REDUCER=repair: DeepSpeed's reducer in right order, and with the results it had.

The matrix has every release that can race; `make test` runs one cell of each kind.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deepspeed.test_table import Cell
from tests.deepspeed.training import train

NO_REDUCE_SCATTER = ("--no-reduce-scatter",)
CELLS = (
    *(Cell(release, "plain") for release in ("0.9.5", "0.14.0", "0.14.2", "0.14.3", "0.17.2")),
    *(Cell(release, "oversize") for release in ("0.9.5", "0.14.0", "0.17.2", "0.18.5")),
    *(Cell(release, "producers") for release in ("0.14.0", "0.17.2", "0.18.5", "0.19.2")),
    Cell("0.19.2", "oversize"),
    Cell("0.19.8", "plain"),
    Cell("0.19.8", "plain", ("--stage", "1")),
    Cell("0.19.8", "oversize", NO_REDUCE_SCATTER),
    Cell("0.19.8", "oversize", ("--layers", "5"), ranks=3),
    Cell("0.19.8", "producers"),
    Cell("0.19.8", "producers", ("--no-overlap",)),
)
# One cell for two buffers in turn, and one for several producers.
ALWAYS = {"0.17.2-plain-2ranks-lazy", "0.19.8-producers-2ranks-eager"}


def cells(*schedules: str) -> list[object]:
    parameters = []
    for cell in CELLS:
        for schedule in schedules:
            name = f"{cell.id}-{schedule}"
            marks = () if name in ALWAYS else (pytest.mark.deepspeed_matrix,)
            parameters.append(pytest.param(cell, schedule, id=name, marks=marks))
    return parameters


@cache
def losses_without_overlap(release: str, stage: str, layers: str, ranks: int) -> list[float]:
    """Return what the release computes on one stream; bucket sizes and streams do not matter."""
    arguments = ("--no-overlap", "--stage", stage, "--layers", layers)
    with TemporaryDirectory() as folder:
        run = train(release, *arguments, output=Path(folder) / "out", ranks=ranks)
    assert (run.status, run.races) == (0, [])
    return run.losses


def expected_losses(cell: Cell) -> list[float]:
    given = dict(zip(cell.arguments, cell.arguments[1:], strict=False))
    return losses_without_overlap(
        cell.release, given.get("--stage", "2"), given.get("--layers", "4"), cell.ranks
    )


@pytest.mark.parametrize(("cell", "schedule"), cells("eager", "lazy"))
def test_a_repaired_release_is_clean_and_computes_what_it_computes_without_overlap(
    cell: Cell, schedule: str, tmp_path: Path
) -> None:
    """Nothing is found any more, and the losses are, bit by bit, those without overlap."""
    arguments = ("--scenario", cell.scenario, *cell.arguments)

    run = train(
        cell.release, *arguments,
        output=tmp_path / "out", schedule=schedule, ranks=cell.ranks, reducer="repair",
    )  # fmt: skip

    assert (run.status, run.races) == (0, []), run.text[-4000:]
    assert run.losses == expected_losses(cell)


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize(("early", "late"), list(itertools.permutations(range(3), 2)))
@pytest.mark.parametrize("release", ["0.14.2", "0.19.8"])
def test_a_repaired_release_computes_the_same_under_the_extreme_schedules(
    release: str, early: int, late: int, tmp_path: Path
) -> None:
    """Each of two producers and the reduction stream as early and as late as CUDA allows."""
    cell = Cell(release, "producers")

    run = train(
        release, "--scenario", "producers",
        output=tmp_path / "out", schedule=f"extreme:{early},{late}", reducer="repair",
    )  # fmt: skip

    assert (run.status, run.races) == (0, []), run.text[-4000:]
    assert run.losses == expected_losses(cell)


@pytest.mark.deepspeed_matrix
def test_no_warning_is_given_of_a_race_that_is_repaired(tmp_path: Path) -> None:
    """0.17.2 warns of its race at start; not when the race cannot happen."""
    run = train("0.17.2", output=tmp_path / "out", reducer="repair")

    assert "KnownRaceWarning" not in run.text
