"""STREAMGUARD_REDUCER=own: DeepSpeed trains as without overlap, and no race is found.

What it is compared with is DeepSpeed's own reducer on one stream, `overlap_comm` off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamguard.verify.jobs import Jobs
from streamguard.verify.wire import wire_of
from tests.deepspeed.test_table import Cell
from tests.deepspeed.training import ROOT, environment_of, train

PROGRAM = "tests.deepspeed.own_training:train"
COMPARED = ("losses", "norms", "scales", "applied", "parameters", "masters")
ZERO_1 = {"zero": {"stage": 1}}
SUMS_IN_FP32 = {"config": {"data_types": {"grad_accum_dtype": "fp32"}}, "accumulation": 2}
NO_REDUCE_SCATTER = {"zero": {"reduce_scatter": False}}
CASES: dict[str, dict[str, Any]] = {
    "bf16": {},
    "fp16-overflow-accumulation": {
        "dtype": "fp16", "overflow_at": [1], "accumulation": 2, "steps": 4
    },
    "fp32": {"dtype": "fp32"},
    "stage-1": ZERO_1,
    "stage-1-accumulation": {**ZERO_1, "accumulation": 3},
    "stage-1-fp16-sums-in-fp32": {**ZERO_1, **SUMS_IN_FP32, "dtype": "fp16"},
    "accumulation": {"accumulation": 3},
    "sums-in-fp32": SUMS_IN_FP32,
    "reduced-in-fp32": {"config": {"communication_data_type": "fp32"}},
    "predivided": {**NO_REDUCE_SCATTER, "config": {"gradient_predivide_factor": 4.0}},
    "prescaled": {**NO_REDUCE_SCATTER, "config": {"prescale_gradients": True}},
    "round-robin": {"zero": {"round_robin_gradients": True}},
    "aligned": {"zero": {"parameter_alignment": True}},
    "not-contiguous": {"zero": {"contiguous_gradients": False}},
    "stage-1-not-contiguous": {"zero": {"contiguous_gradients": False, "stage": 1}},
    "without-overlap": {"zero": {"overlap_comm": False}},
    "stage-1-without-overlap": {"zero": {"overlap_comm": False, "stage": 1}, "accumulation": 2},
    "elastic": {"zero": {"elastic_checkpoint": True}},
    "unused": {"unused": {"0": [2], "2": [3]}},
    "stage-1-unused": {**ZERO_1, "unused": {"0": [2], "2": [3]}, "accumulation": 2},
    "groups": {"groups": 2},
    "three-ranks": {"ranks": 3},
}  # fmt: skip
# One case for each of the two dtypes; the others take a release and minutes more.
ALWAYS = {"bf16-lazy", "fp16-overflow-accumulation-eager"}
EXTREMES = [f"extreme:{early},{late}" for early in range(3) for late in range(3) if early != late]


def runs() -> list[object]:
    parameters = []
    for name in CASES:
        schedules = ["eager", "lazy", *EXTREMES] if name in ("bf16", "stage-1") else ["eager"]
        for schedule in schedules:
            marks = () if f"{name}-{schedule}" in ALWAYS else (pytest.mark.deepspeed_matrix,)
            parameters.append(pytest.param(name, schedule, id=f"{name}-{schedule}", marks=marks))
    return parameters


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    """One process with the newest release, whose forks are the ranks."""
    inherited = environment_of("0.19.8")
    path = os.pathsep.join([inherited.get("PYTHONPATH", ""), str(ROOT)])
    environment = {**inherited, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    with Jobs(
        devices=3, preload=["tests.deepspeed.own_training"], environment=environment
    ) as running:
        yield running


def trained(jobs: Jobs, schedule: str = "eager", **argument: Any) -> list[dict[str, Any]]:
    """What every rank says of its training."""
    ranks = argument.pop("ranks", 2)
    return list(jobs.run(PROGRAM, {"steps": 3, **argument}, ranks=ranks, schedule=schedule))


def facts(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: result[name] for name in COMPARED} for result in results]


@cache
def without_overlap(jobs: Jobs, name: str) -> list[dict[str, Any]]:
    """What DeepSpeed's own reducer computes on one stream."""
    # With several groups the own reducer has one norm, as the repair has; see docs/deepspeed.md.
    reference = "repair" if name == "groups" else None
    return facts(trained(jobs, **CASES[name], reducer=reference))


@pytest.mark.parametrize(("name", "schedule"), runs())
def test_deepspeed_trains_bit_by_bit_as_without_overlap(
    jobs: Jobs, name: str, schedule: str
) -> None:
    """Two producers and overlap change no loss, norm, parameter, master or loss scale."""
    results = trained(jobs, schedule, **CASES[name], reducer="own", watch=True)

    assert facts(results) == without_overlap(jobs, name)
    for result in results:
        assert result["findings"] == []
        assert result["coverage"]["opaque_launches"] == 0
        assert (result["left_grads"], result["late_allocations"]) == (0, 0)


def test_an_overflow_on_one_rank_skips_the_step_on_all(jobs: Jobs) -> None:
    """The loss of rank 0 overflows in the second of four steps; the scale is halved."""
    results = trained(jobs, dtype="fp16", overflow_at=[1], steps=4, reducer="own")

    assert [result["applied"] for result in results] == [[True, False, True, True]] * 2
    assert [result["scales"] for result in results] == [[256.0, 128.0, 128.0, 128.0]] * 2


def test_each_gradient_is_sent_once_and_memory_is_a_partition_and_two_buckets(jobs: Jobs) -> None:
    """(N-1)/N of the gradients' bytes where DeepSpeed sends twice that."""
    argument = {"reducer": "own", "steps": 3, "accumulation": 2}
    done = jobs.run_logged(PROGRAM, argument, ranks=2)
    result = done.results[0]
    elements, backwards = result["elements"], 6

    assert elements == 6352
    assert result["partition"] * 2 == elements  # no padding
    for log in done.calls:
        starts = re.findall(r"^collective_start reduce\((\d+),bfloat16\)", log, re.MULTILINE)
        assert sum(map(int, starts)) == backwards * elements
        assert wire_of(log, ranks=2).gradients == backwards * elements * 2 // 2
    assert result["memory"]["shards"] == elements // 2 * 2
    assert result["memory"]["slots"] == 2 * 700 * 2


@pytest.mark.deepspeed_matrix
def test_deepspeed_all_reduces_every_gradient(jobs: Jobs) -> None:
    """The twin of the test above, without the own reducer: twice the bytes."""
    done = jobs.run_logged(PROGRAM, {"reducer": None, "steps": 3, "accumulation": 2}, ranks=2)

    for log in done.calls:
        starts = re.findall(r"^collective_start all_reduce\((\d+),bfloat16\)", log, re.MULTILINE)
        assert sum(map(int, starts)) == 6 * 6352
        assert "collective_start reduce(" not in log


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize(
    ("edge", "ranks"), [("filled", [0, 1]), ("reduced", [0, 1]), ("shards_ready", [0])]
)
def test_without_an_edge_races_are_found(jobs: Jobs, edge: str, ranks: list[int]) -> None:
    """With all edges the same training is clean.

    The last buckets, for which nobody but the step waits, belong to rank 0.
    """
    results = trained(jobs, reducer="own", watch=True, without=edge)

    assert [rank for rank, result in enumerate(results) if result["findings"]] == ranks


@pytest.mark.parametrize(
    ("saves", "loads"),
    [("own", None), pytest.param(None, "own", marks=pytest.mark.deepspeed_matrix)],
)
def test_a_checkpoint_goes_from_one_reducer_to_the_other(
    jobs: Jobs, saves: str | None, loads: str | None, tmp_path: Path
) -> None:
    """Two steps, saved, loaded by the other, two more: as four steps of plain DeepSpeed."""
    case = {"dtype": "fp16", "groups": 1, "overflow_at": [1]}
    expected = trained(jobs, **case, steps=4, reducer=None)

    first = trained(jobs, **case, steps=2, reducer=saves, save=str(tmp_path))
    last = trained(jobs, **case, steps=2, first=2, reducer=loads, load=str(tmp_path))

    assert [r["losses"] for r in first] == [r["losses"][:2] for r in expected]
    for name in ("losses", "norms", "scales", "applied"):
        assert [r[name] for r in last] == [r[name][2:] for r in expected], name
    for name in ("parameters", "masters"):
        assert [r[name] for r in last] == [r[name] for r in expected], name


@pytest.mark.parametrize("stage", [2, pytest.param(1, marks=pytest.mark.deepspeed_matrix)])
def test_zero_to_fp32_converts_the_checkpoint(jobs: Jobs, stage: int, tmp_path: Path) -> None:
    """To the same parameters as of plain DeepSpeed's checkpoint."""
    converted = {}
    for reducer in (None, "own"):
        folder = str(tmp_path / str(reducer))
        trained(jobs, zero={"stage": stage}, steps=2, reducer=reducer, save=folder)
        program = "tests.deepspeed.own_training:convert"
        converted[reducer] = jobs.run(program, {"folder": folder}, ranks=1)

    assert converted["own"] == converted[None]


def test_a_backward_after_one_that_raised_says_so(jobs: Jobs) -> None:
    """The gradients of the first one are not mixed with those of the second."""
    program = "tests.deepspeed.own_training:raise_inside_backward"
    (said,) = jobs.run(program, {}, ranks=1)

    assert said == [
        "on purpose",
        "a second gradient of blocks.3.2.bias arrived before its backward ended: an earlier "
        "backward raised, or the parameter is used in two reentrant checkpoints",
    ]


@pytest.mark.parametrize("stage", [1, 2])
def test_a_sparse_gradient_is_refused_with_its_name(jobs: Jobs, stage: int) -> None:
    """DeepSpeed's own reducer fails in the middle of it, too, but says nothing of why."""
    program = "tests.deepspeed.own_training:sparse_gradient"
    (said,) = jobs.run(program, {"stage": stage}, ranks=1)

    assert said.startswith("0.weight has a sparse gradient, which ZeRO cannot divide")


CELLS = (
    *(Cell(release, "producers") for release in ("0.18.5", "0.18.8", "0.19.2", "0.19.8")),
    *(Cell(release, "oversize") for release in ("0.18.5", "0.19.8")),
    Cell("0.19.8", "oversize", ("--layers", "5"), ranks=3),
    Cell("0.19.8", "plain", ("--stage", "1")),
)


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize("schedule", ["eager", "extreme:0,1", "extreme:1,0"])
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_an_unchanged_program_trains_with_the_own_reducer(
    cell: Cell, schedule: str, tmp_path: Path
) -> None:
    """`streamguard run --reducer own`: no race, and the losses of the release on one stream."""
    plain = train(
        cell.release, "--no-overlap", *cell.arguments, output=tmp_path / "plain", ranks=cell.ranks
    )
    run = train(
        cell.release, "--scenario", cell.scenario, *cell.arguments,
        output=tmp_path / "out", schedule=schedule, ranks=cell.ranks, reducer="own",
    )  # fmt: skip

    assert (run.status, run.races) == (0, []), run.text[-4000:]
    assert run.losses == plain.losses
