"""Each cell of the table in docs/deepspeed.md: release and scenario against the racing pair.

`make test` runs the cells of 0.17.2 and 0.19.8, `make test-deepspeed` all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deepspeed.training import Training, names, stream, train

REDUCTION = "reduction_stream"


@dataclass(frozen=True)
class Cell:
    """One run; `race` is the id of the known race every finding must be, None for a clean run."""

    release: str
    scenario: str
    arguments: tuple[str, ...] = ()
    ranks: int = 2
    race: str | None = None

    @property
    def id(self) -> str:
        extra = "".join(argument.replace("--", "-") for argument in self.arguments)
        return f"{self.release}-{self.scenario}{extra}-{self.ranks}ranks"


REFILL = "deepspeed-pr-6993"
OVERSIZE = "deepspeed-pr-7965"
PRODUCERS = "deepspeed-pr-8080"
OPEN_REFILL = "deepspeed-open-refill-by-another-producer"
NO_OVERLAP = "deepspeed-open-producers-without-overlap"
OPEN_OVERSIZE = "deepspeed-open-oversize-freed"
# With this bucket the streams change between two flushes, never right after one.
ONE_STREAM_BETWEEN_FLUSHES = ("--bucket", "5120")

OLD_REFILL = "deepspeed-pr-2500"
DEFAULT_STREAM_ONLY = "deepspeed-pr-7898"
READ_EARLY = "deepspeed-open-partition-read-early"
ZERO_1 = ("--stage", "1")
ZERO_3 = ("--stage", "3")
# What else waits for the device between the optimizer and the next forward is switched off.
WITHOUT_WAITS = (*ZERO_3, "--gather-all", "--batches-first", "--no-throughput-sync")

CELLS = (
    Cell("0.14.0", "plain", race=OLD_REFILL),
    Cell("0.14.0", "plain", ZERO_1, race=OLD_REFILL),
    Cell("0.14.0", "oversize", race=OVERSIZE),
    Cell("0.14.3", "plain"),
    Cell("0.14.3", "plain", ZERO_1),
    Cell("0.17.2", "plain", ZERO_1, race=REFILL),
    Cell("0.18.5", "producers", ZERO_3, race=DEFAULT_STREAM_ONLY),
    Cell("0.18.8", "producers", ZERO_3),
    Cell("0.19.8", "plain", ZERO_1),
    Cell("0.19.8", "plain", WITHOUT_WAITS[:-1]),
    Cell("0.19.8", "plain", WITHOUT_WAITS, race=READ_EARLY),
    Cell("0.17.2", "plain", race=REFILL),
    Cell("0.18.5", "plain"),
    Cell("0.18.5", "oversize", race=OVERSIZE),
    Cell("0.18.5", "producers", race=PRODUCERS),
    Cell("0.19.2", "plain"),
    Cell("0.19.2", "producers", race=PRODUCERS),
    Cell("0.19.8", "plain"),
    Cell("0.19.8", "oversize"),
    Cell("0.19.8", "oversize", ("--no-reduce-scatter",), race=OPEN_OVERSIZE),
    Cell("0.19.8", "oversize", ("--layers", "5"), ranks=3, race=OPEN_OVERSIZE),
    Cell("0.19.8", "producers", ONE_STREAM_BETWEEN_FLUSHES),
    Cell("0.19.8", "producers", race=OPEN_REFILL),
    Cell("0.19.8", "producers", ("--no-overlap",), race=NO_OVERLAP),
)
ALWAYS = ("0.17.2", "0.19.8")


def is_always_run(cell: Cell) -> bool:
    return cell.release in ALWAYS and ("--stage" not in cell.arguments or cell.race == READ_EARLY)


def cells() -> list[object]:
    return [
        pytest.param(
            cell,
            id=cell.id,
            marks=() if is_always_run(cell) else (pytest.mark.deepspeed_matrix,),
        )
        for cell in CELLS
    ]


@pytest.mark.parametrize("cell", cells())
def test_cell_of_the_table(cell: Cell, tmp_path: Path) -> None:
    """A racy release and scenario shows its pair by name, a clean one nothing at all."""
    arguments = ("--scenario", cell.scenario, *cell.arguments)

    run = train(cell.release, *arguments, output=tmp_path / "out", ranks=cell.ranks)

    if cell.race is None:
        assert (run.status, run.races) == (0, []), run.text[-4000:]
        return
    assert run.status == 66, run.text[-4000:]
    expected = [race for race in run.races if (race["known"] or {}).get("id") == cell.race]
    assert expected, run.text[-4000:]
    check_pair(cell, expected)


def check_pair(cell: Cell, races: list[dict[str, object]]) -> None:
    """Assert what deepspeed.md says of the pair: streams, buffer, and whose bytes they are."""
    if cell.race in (OLD_REFILL, REFILL, OPEN_REFILL):
        refills = [race for race in races if race["second"]["op"] == "aten::copy_"]
        assert refills
        for race in refills:
            assert (race["domain"], stream(race, "first")) == ("device", REDUCTION)
            assert stream(race, "second") != REDUCTION
            assert bucket_gradients(race, "first"), race["overlap"]
            assert bucket_gradients(race, "second"), race["overlap"]
    elif cell.race == DEFAULT_STREAM_ONLY:
        for race in races:
            assert (race["code"], race["domain"]) == ("SG001", "device")
            assert race["second"]["op"] == "aten::copy_"
            assert stream(race, "second") == "reduce_and_partition_stream"
            assert stream(race, "first") != "reduce_and_partition_stream"
    elif cell.race == READ_EARLY:
        for race in races:
            assert (race["code"], race["domain"]) == ("SG001", "device")
            assert "allgather_stream" not in stream(race, "first")
            assert "allgather_stream" in stream(race, "second")
    elif cell.race == PRODUCERS:
        copies = [race for race in races if race["first"]["op"] == "aten::copy_"]
        assert copies
        for race in copies:
            assert (race["domain"], stream(race, "second")) == ("device", REDUCTION)
            assert stream(race, "first") != REDUCTION
            assert bucket_gradients(race, "first"), race["overlap"]
    elif cell.race == NO_OVERLAP:
        for race in races:
            assert race["domain"] == "device"
            assert stream(race, "first") != stream(race, "second")
            assert REDUCTION not in (stream(race, "first"), stream(race, "second"))
            assert bucket_gradients(race, "first"), race["overlap"]
    else:
        for race in races:
            assert (race["code"], race["domain"]) == ("SG004", "reuse")
            assert stream(race, "first") == REDUCTION
            assert stream(race, "second") != REDUCTION
            assert race["first"]["allocation"] != race["second"]["allocation"]
        assert any(
            name.startswith("gradient of ") for race in races for name in names(race, "first")
        )


def bucket_gradients(race: dict[str, object], side: str) -> list[str]:
    """Return names such as `ipg_buckets[bfloat16].buffer[0], gradient of blocks.1.expand.bias`."""
    return [name for name in names(race, side) if "ipg_bu" in name and "gradient of " in name]


def test_no_overlap_is_clean_in_the_racy_release(tmp_path: Path) -> None:
    """The twin of the racy run differs in one setting: `overlap_comm` off."""
    run: Training = train("0.17.2", "--no-overlap", output=tmp_path / "out")

    assert (run.status, run.races) == (0, []), run.text[-4000:]
