"""A job's report as JSON lines: the records of the ranks, joined, and one summary at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator

from streamguard.report.encode import Json, encode_coverage
from streamguard.report.jsonl import SCHEMA, to_json
from streamguard.report.model import Report
from streamguard.report.waits import needed_waits
from streamguard.report.wording import lane_text


def job_json_lines(report: Report) -> Iterator[str]:
    """Yield one line a record: `race`, `wait`, `misuse`, `access`, and `summary` last.

    In each, `ranks` lists [rank, count] pairs (for accesses only ranks) and `count` is their sum.
    """
    for merged in (*report.findings, *report.inserted):
        values = to_json(merged.finding)
        yield _line({**values, "count": merged.total, "ranks": _pairs(merged.counts)})
    for misuse in report.misuses:
        total = sum(count for _, count in misuse.counts)
        values = to_json(misuse.misuse)
        yield _line({**values, "count": total, "ranks": _pairs(misuse.counts)})
    for row in report.accesses:
        yield _line({**to_json(row.access), "ranks": list(row.ranks)})
    yield _line(_summary(report))


def _summary(report: Report) -> Json:
    coverages = [
        {"rank": rank.start.rank, "pid": rank.start.pid, **encode_coverage(rank.summary.coverage)}
        for rank in report.ranks
        if rank.summary is not None
    ]
    return {
        "type": "summary",
        "schema": SCHEMA,
        "status": report.status,
        "races": len(report.findings),
        "misuses": report.misuse_count,
        "hints": len(report.misuses) - report.misuse_count,
        "waits_inserted": report.waits_inserted,
        "wait_sites": len(report.inserted),
        "confirmed": report.confirmed if report.is_confirming else None,
        "ranks": sorted({rank.start.rank for rank in report.ranks}),
        "expected_ranks": list(report.expected_ranks),
        "missing_ranks": list(report.missing_ranks),
        "died_ranks": list(report.died_ranks),
        "coverage": coverages,
        "notes": list(report.notes),
        "needed_waits": [
            {
                "from": lane_text(wait.after),
                "to": lane_text(wait.before),
                "after_op": wait.after.op_id,
                "before_op": wait.before.op_id,
                "races": [report.findings[race].finding.suppression for race in wait.races],
            }
            for wait in needed_waits(report)
        ],
    }


def _pairs(counts: tuple[tuple[int, int], ...]) -> list[list[int]]:
    return [[rank, count] for rank, count in counts]


def _line(values: Json) -> str:
    return json.dumps(values, separators=(",", ":")) + "\n"
