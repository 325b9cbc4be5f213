"""The text of reports, compared with the golden files word for word.

`STREAMGUARD_UPDATE_GOLDEN=1` writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamguard.report.build import build_coverage, build_finding, build_watched
from streamguard.report.coverage import coverage_lines
from streamguard.report.merge import merge_ranks
from streamguard.report.model import Frame, Misuse, Report
from streamguard.report.text import render, summary_line
from tests.unit.ranks import rank_findings
from tests.unit.raw_findings import (
    POOL_STREAM,
    REDUCE_FRAMES,
    REDUCTION_STREAM,
    access,
    coverage,
    finding,
    reduction,
    watched,
)

GOLDEN = Path(__file__).parent.parent / "golden"

_NO_WAIT = {
    "needed_epoch": 9,
    "known_epoch": 0,
    "last_wait": None,
    "event_after_first": True,
}


def _check(name: str, report: Report) -> None:
    text = render(report, base="/job")
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("STREAMGUARD_UPDATE_GOLDEN"):
        path.write_text(text)

    assert text == path.read_text()


def _one(raw: dict[str, Any], **annotations: object) -> Report:
    return merge_ranks([rank_findings(findings=[build_finding(raw, annotations=annotations)])])


def _unnamed(**changes: Any) -> dict[str, Any]:
    return access(names=[], frames=[["/job/train.py", 12, "step"]], **changes)


def _bare_overlap() -> dict[str, Any]:
    return {"begin": 65536, "end": 69632, "names_first": [], "names_second": []}


def test_read_after_write() -> None:
    """SG001 between two streams without names of tensors; nothing was ever waited for."""
    _check(
        "SG001",
        _one(
            finding(
                code="SG001",
                kind="RAW",
                step=None,
                count=1,
                first=_unnamed(op="aten::mul", stream=POOL_STREAM, epoch=9),
                second=_unnamed(op="aten::add", access="read"),
                overlap=_bare_overlap(),
                missing=_NO_WAIT,
            )
        ),
    )


def test_write_after_read() -> None:
    """SG002 with named buffers, a wait that came too early, and the upstream defect."""
    known = {
        "id": "ds-6993",
        "title": "the ping-pong index is reset",
        "upstream": ["DeepSpeed PR 6993", "issue 7804"],
        "affected": "0.17.2 to 0.17.4",
        "first_good": "0.17.5 (PR 7371)",
        "avoid": '"overlap_comm": false',
        "running": "0.17.2",
    }
    _check("SG002", _one(finding(), known=known))


def test_write_after_write() -> None:
    """SG003: pitched rows, and an op of the backward pass that is told by its forward line."""
    region = {"begin": 65536, "width": 64, "pitch": 256, "rows": 8}
    _check(
        "SG003",
        _one(
            finding(
                code="SG003",
                kind="WAW",
                first=_unnamed(region=region, stream=REDUCTION_STREAM, epoch=9),
                second=access(
                    op="aten::mm",
                    names=[],
                    region=region,
                    frames=[],
                    forward_frames=[["/job/model.py", 31, "forward"]],
                ),
                overlap=_bare_overlap(),
                missing=_NO_WAIT,
            )
        ),
    )


def test_reuse() -> None:
    """SG004: the repair is record_stream, or a wait before the last reference goes."""
    _check(
        "SG004",
        _one(
            finding(
                code="SG004",
                domain="reuse",
                first=reduction(
                    names=[{"name": "gradient of embed.weight", "begin": 0, "end": 4096}],
                    allocation=6,
                ),
                second=_unnamed(op="aten::fill_"),
                overlap=_bare_overlap(),
            )
        ),
    )


def test_host_access() -> None:
    """SG005: the host overwrites pinned memory whose copy is in flight."""
    host = _unnamed(op="aten::fill_", on_host=True, stream=None, host_thread=0)
    _check(
        "SG005",
        _one(
            finding(
                code="SG005",
                kind="WAR",
                domain="host",
                first=_unnamed(access="read", stream=POOL_STREAM, epoch=9),
                second=host,
                overlap=_bare_overlap(),
                missing=_NO_WAIT,
            )
        ),
    )


def test_collective() -> None:
    """SG006: the repair is Work.wait with the accessing stream current."""
    _check(
        "SG006",
        _one(
            finding(
                code="SG006",
                kind="WAW",
                first=reduction(access="write", collective={"async": True, "group": "0"}),
                second=access(stream=POOL_STREAM),
            )
        ),
    )


def test_use_after_free() -> None:
    """SG007: a graph is replayed after its tensor has gone."""
    _check(
        "SG007",
        _one(
            finding(
                code="SG007",
                kind="UAF",
                domain="lifetime",
                first=_unnamed(op="free"),
                second=_unnamed(op="graph launch"),
                overlap=_bare_overlap(),
                missing=_NO_WAIT,
            )
        ),
    )


def test_a_job_of_several_ranks() -> None:
    """Ranks, counts, a misuse, the access table, missing and dead ranks, problems and damage."""
    unordered = watched(op="c10d::allreduce_", stream="reduction_stream", frames=REDUCE_FRAMES)
    unordered["ordered_after"] = [
        {
            "op": "aten::copy_",
            "access": "write",
            "stream": "default stream (device 0)",
            "edge": {"kind": "none"},
        },
        {
            "op": "aten::div_",
            "access": "write",
            "stream": "reduction_stream",
            "edge": {"kind": "stream_order"},
        },
    ]
    frames = (Frame("/job/a.py", 3, "f"),)
    hint = Misuse(1, "SG101", 2, 0, "a block was freed early", frames)
    misuse = Misuse(2, "SG199", 1, None, "a misuse of another version", frames)
    ranks = [
        rank_findings(
            0,
            world_size=4,
            findings=[build_finding(finding(count=1))],
            misuses=[hint, misuse],
            accesses=[build_watched(watched()), build_watched(unordered)],
            problems=("cannot write to results: No space left on device",),
        ),
        rank_findings(1, world_size=4, findings=[build_finding(finding())], has_summary=False),
    ]
    _check(
        "job",
        merge_ranks(ranks, notes=["a damaged record"], access_patterns=["ipg_buffer[*]"]),
    )


def test_a_clean_job() -> None:
    """A clean result says what was seen, and how."""
    seen = build_coverage(
        coverage(
            opaque={"cublas": 2, "triton": 1},
            launches_observed=True,
            unregistered_kernels=1,
            unregistered_kernel_names=["my::late_kernel"],
        )
    )
    rank = rank_findings()
    assert rank.summary is not None
    rank = replace(rank, summary=replace(rank.summary, coverage=seen))
    _check("clean", merge_ranks([rank], access_patterns=["nothing*"]))


def test_layers_that_hear_nothing_are_named() -> None:
    """One was left to another tool, one was asked for and is not there."""
    seen = build_coverage(
        coverage(gave_way=["nccl to mine.so"], silent=["cupti (no libcupti.so.13)"])
    )
    rank = rank_findings()
    assert rank.summary is not None
    rank = replace(rank, summary=replace(rank.summary, coverage=seen))
    line = next(line for line in coverage_lines(merge_ranks([rank])) if "layers" in line)

    assert "; gave way: nccl to mine.so; silent: cupti (no libcupti.so.13); " in line


@pytest.mark.parametrize("ranks", [[], [rank_findings(ops=0)]], ids=["no-rank", "no-op"])
def test_checked_nothing(ranks: list[Any], request: pytest.FixtureRequest) -> None:
    """Nothing checked is never called clean."""
    name = request.node.callspec.id
    _check(f"checked-nothing-{name}", merge_ranks(ranks))


def test_the_summary_line_counts_over_all_ranks() -> None:
    """One line that scripts look for: sums over ranks, ranks that reported of those expected."""
    report = merge_ranks(
        [
            rank_findings(0, world_size=3, ops=120, findings=[build_finding(finding())]),
            rank_findings(1, world_size=3, ops=30),
        ]
    )

    assert summary_line(report) == (
        "SUMMARY streamguard races=1 misuses=0 ranks=2/3 ops=150 accesses=680 status=races"
    )
