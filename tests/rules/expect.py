"""Assertions on findings that state the whole fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.rules.programs import Outcome


@dataclass(frozen=True, slots=True)
class Side:
    """One access of an expected finding: op, "read" or "write", stream, and the issuing line.

    `stream` is "default", "side" (any other than the default), "nccl" or "host".
    """

    op: str
    access: str
    stream: str
    line: str


def assert_only_finding(
    outcome: Outcome, *, code: str, kind: str, first: Side, second: Side, size: int, count: int = 1
) -> dict[str, Any]:
    """Require exactly one finding, with this pair, overlap size in bytes, and count; return it."""
    summary = [(f["code"], f["first"]["op"], f["second"]["op"]) for f in outcome.findings]
    assert summary == [(code, first.op, second.op)]
    finding = outcome.findings[0]
    overlap = finding["overlap"]
    found = (
        finding["kind"],
        _side(outcome, finding["first"]),
        _side(outcome, finding["second"]),
        overlap["end"] - overlap["begin"],
        finding["count"],
    )

    assert found == (kind, first, second, size, count)
    assert outcome.announced == [finding["id"]]
    return finding


def pairs(outcome: Outcome) -> list[tuple[str, str, str, str, int]]:
    """Every finding: code, both ops, the line of the second, bytes of the first overlapping run."""
    return [
        (
            f["code"],
            f["first"]["op"],
            f["second"]["op"],
            outcome.line_of(f["second"]),
            f["overlap"]["end"] - f["overlap"]["begin"],
        )
        for f in outcome.findings
    ]


def assert_clean(outcome: Outcome, *, ops_at_least: int = 1) -> None:
    """Require no finding, from a run that did watch."""
    summary = [
        (f["code"], _side(outcome, f["first"]), _side(outcome, f["second"]))
        for f in outcome.findings
    ]

    assert summary == []
    assert outcome.coverage["ops"] >= ops_at_least


def _side(outcome: Outcome, access: dict[str, Any]) -> Side:
    return Side(access["op"], access["access"], _stream(access), outcome.line_of(access))


def _stream(access: dict[str, Any]) -> str:
    if access["on_host"]:
        return "host"
    name = access["stream"]["name"]
    if name.startswith("NCCL stream of group "):
        return "nccl"
    return "default" if name == f"default stream (device {access['stream']['device']})" else "side"
