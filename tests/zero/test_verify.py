"""The proof itself: what it says of the own reducer, and what it would say of a worse one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from streamguard.errors import UsageError
from streamguard.verify.certificate import Certificate, EdgeProof, RankCertificate, Traffic
from streamguard.verify.jobs import Jobs
from streamguard.verify.prove import Verification, parse_ranks
from streamguard.verify.subjects import SUBJECTS, Subject, subject_of
from streamguard.verify.text import render
from streamguard.verify.wire import Wire, streams_in, wire_of
from tests.cli.command import streamguard
from tests.zero.conftest import ROOT

OWN = SUBJECTS["own"]
# A schedule under which the missing edge changes bytes, from the table in docs/reducer.md.
CHANGED_UNDER = {
    "filled": "extreme:1,0",
    "reduced": "extreme:0,1",
    "shards_ready": "extreme:0,1",
    "stepped": "extreme:1,0",
    "gathered": "extreme:0,1",
}
GOOD = RankCertificate(
    ranks=2,
    streams=4,
    findings=(),
    coverage={
        "ops": 5,
        "accesses": 9,
        "collectives": 2,
        "waits": 1,
        "launches_observed": 2,
        "opaque_launches": 0,
        "unregistered_kernels": 0,
    },
    schedules=("eager", "lazy"),
    different={},
    edges=(EdgeProof("filled", 1, "SG001: a, then b", "lazy", ("gradients",)),),
    gradients=Traffic(110, 100, 10),
    parameters=Traffic(110, 100, 10),
    memory={"slots": 10, "shards": 20, "deferred_peak": 0, "bound": 30},
    late_allocations=0,
)


def results(jobs: Jobs, schedule: str, *, without: str | None = None, **changes: bool) -> tuple:
    argument = {"overlap": True, "watch": False, "without": without, **changes}
    return jobs.run(OWN.program, argument, ranks=2, schedule=schedule)


def bytes_of(result: Mapping[str, str]) -> tuple[str, str, str]:
    return result["losses"], result["gradients"], result["parameters"]


def test_without_an_edge_the_detector_finds_races_and_bytes_change(jobs: Jobs) -> None:
    """With all edges it finds none; each edge is needed by both accounts."""
    reference = [bytes_of(r) for r in results(jobs, "eager", overlap=False)]
    whole = results(jobs, "eager", watch=True)

    assert set(CHANGED_UNDER) == set(OWN.edges)
    assert [r["findings"] for r in whole] == [[], []]
    assert [bytes_of(r) for r in whole] == reference
    for edge, schedule in CHANGED_UNDER.items():
        without = results(jobs, schedule, without=edge, watch=True)
        assert all(r["findings"] for r in without), edge
        assert [bytes_of(r) for r in without] != reference, edge


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_certificate_of_the_own_reducer_holds(ranks: int, tmp_path: Path) -> None:
    """The command ends with 0 and writes the certificate."""
    file = tmp_path / "certificate.json"
    done = streamguard(
        "verify-reducer", "--ranks", str(ranks), "--json", str(file), "--quiet", cwd=ROOT
    )
    certificate = json.loads(file.read_text())

    assert done.returncode == 0, done.stdout + done.stderr
    assert certificate["holds"] is True
    assert [part["ranks"] for part in certificate["by_ranks"]] == [ranks]
    assert [proof["edge"] for proof in certificate["by_ranks"][0]["edges"]] == list(OWN.edges)


def test_a_reducer_that_is_wrong_under_one_schedule_gets_no_certificate(jobs: Jobs) -> None:
    """A program that differs under lazy only, and whose edge nothing needs."""
    subject = Subject("wrong", "tests.zero.programs:wrong_when_late", ("needless",))
    lines: list[str] = []
    part = Verification(subject, jobs, lines.append).certify(1)

    assert part.different == {"lazy": ("parameters",)}
    assert [proof.is_necessary for proof in part.edges] == [False]
    assert not part.is_covered
    assert not Certificate("wrong", {}, (part,)).holds
    assert lines[0] == "1 ranks: reference without overlap"


@pytest.mark.parametrize(
    "changes",
    [
        {"findings": ("SG001: a, then b",)},
        {"coverage": {**GOOD.coverage, "accesses": 0}},
        {"coverage": {**GOOD.coverage, "opaque_launches": 1}},
        {"coverage": {**GOOD.coverage, "launches_observed": 1}},
        {"different": {"lazy": ("losses",)}},
        {"edges": (EdgeProof("filled", 0, "", "lazy", ("losses",)),)},
        {"edges": (EdgeProof("filled", 1, "x", None, ()),)},
        {"gradients": Traffic(111, 100, 10)},
        {"parameters": Traffic(109, 100, 10)},
        {"memory": {**GOOD.memory, "deferred_peak": 1}},
        {"late_allocations": 1},
    ],
)
def test_each_thing_that_does_not_hold_is_one_failure(changes: dict[str, object]) -> None:
    """And nothing fails where everything holds."""
    worse = dataclasses.replace(GOOD, **changes)

    assert GOOD.failures() == ()
    assert len(worse.failures()) == 1
    assert "FAILED" in render(Certificate("own", {}, (worse,)))
    assert "FAILED" not in render(Certificate("own", {}, (GOOD,)))


def test_bytes_are_reported_and_not_judged_where_the_bound_is_not_claimed() -> None:
    """Twice the bound: DeepSpeed all-reduces, and the repair leaves it so."""
    twice = dataclasses.replace(GOOD, gradients=Traffic(200, 100, 0, is_claimed=False))
    text = render(Certificate("repair", {}, (twice,)))

    assert twice.failures() == ()
    assert "200 bytes per rank and backward; bound 100, padding 0, 2.00 times the bound" in text
    assert "not judged, this reducer does not claim the bound" in text
    assert "not judged" not in render(Certificate("own", {}, (GOOD,)))


def test_bytes_are_counted_from_the_log_of_calls() -> None:
    """Three ranks: 2/3 of what is reduced or gathered, twice that for an all-reduce."""
    log = (
        "collective_start reduce_scatter(4,float32) comm=1 stream=2\n"  # 12 elements
        "collective_end reduce_scatter(4,float32) comm=1 stream=2\n"
        "collective_start all_reduce(30,bfloat16) comm=1 stream=0\n"  # too small for a gradient
        "collective_start all_reduce(60,bfloat16) comm=1 stream=0\n"
        "collective_start all_gather(5,float16) comm=1 stream=2\n"
    )

    assert wire_of(log, ranks=3) == Wire(
        gradients=2 * 16 + 160,
        parameters=20,
        small=80,
        calls={"reduce_scatter": 1, "all_reduce": 2, "all_gather": 1},
    )
    assert streams_in(log) == 3


@pytest.mark.parametrize("text", ["", "0", "9", "2,x", "-1"])
def test_ranks_that_cannot_be_run_are_refused(text: str) -> None:
    """Numbers from 1 to 8, separated by commas."""
    with pytest.raises(UsageError):
        parse_ranks(text)
    assert parse_ranks("2, 3,2") == (2, 3)


def test_an_unknown_reducer_and_an_unwritable_file_are_refused_first(tmp_path: Path) -> None:
    """Status 2 before minutes of work."""
    with pytest.raises(UsageError):
        subject_of("nothing")
    done = streamguard("verify-reducer", "--json", str(tmp_path / "no" / "x.json"), cwd=ROOT)

    assert done.returncode == 2


def test_the_table_in_the_docs_names_every_edge() -> None:
    """docs/reducer.md shows the command's output for the edges that exist."""
    lines = (ROOT / "docs" / "reducer.md").read_text().splitlines()
    rows = [line.split("|")[1].strip() for line in lines if "| SG0" in line]

    assert rows == list(OWN.edges) * 3
