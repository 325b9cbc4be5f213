"""Every edge of the repair is necessary: without it the detector finds the race it closes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deepspeed.test_table import Cell
from tests.deepspeed.training import stream, train

REFILL = ("device", "reduction_stream", "aten::copy_")
FREED = ("reuse", "reduction_stream", None)
EDGES = (
    ("refill_waits_for_reduction", Cell("0.14.0", "plain"), REFILL),
    ("refill_waits_for_reduction", Cell("0.19.8", "producers"), REFILL),
    ("buffers_alternate", Cell("0.17.2", "plain"), REFILL),
    ("memory_outlives_reduction", Cell("0.18.5", "oversize"), FREED),
    ("memory_outlives_reduction", Cell("0.19.8", "oversize", ("--no-reduce-scatter",)), FREED),
)


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize(
    ("edge", "cell", "pair"), [pytest.param(*e, id=f"{e[0]}-{e[1].id}") for e in EDGES]
)
def test_without_an_edge_its_race_is_back(
    edge: str, cell: Cell, pair: tuple[str, str, str | None], tmp_path: Path
) -> None:
    """All findings are the pair of that edge: the others are still ordered."""
    run = train(
        cell.release, "--scenario", cell.scenario, *cell.arguments,
        output=tmp_path / "out", ranks=cell.ranks, reducer="repair", without_edge=edge,
    )  # fmt: skip

    domain, first_stream, second_op = pair
    assert run.status == 66, run.text[-4000:]
    for race in run.races:
        assert (race["domain"], stream(race, "first")) == (domain, first_stream)
        assert stream(race, "second") != first_stream
        assert second_op in (None, race["second"]["op"]), race["second"]["op"]


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize("release", ["0.18.5", "0.19.2"])
def test_without_the_wait_for_producers_the_reduction_reads_early(
    release: str, tmp_path: Path
) -> None:
    """The copy of one producer against the reduction, which waited for the other one only."""
    run = train(
        release, "--scenario", "producers",
        output=tmp_path / "out", reducer="repair", without_edge="reduction_waits_for_producers",
    )  # fmt: skip

    assert run.status == 66, run.text[-4000:]
    for race in run.races:
        assert race["domain"] == "device"
    early = [race for race in run.races if stream(race, "second") == "reduction_stream"]
    assert "aten::copy_" in {race["first"]["op"] for race in early}
    assert "reduction_stream" not in {stream(race, "first") for race in early}
