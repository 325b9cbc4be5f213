"""Ranks as result files describe them, for tests of merging and printing."""

from __future__ import annotations

from collections.abc import Iterable

from streamguard.report.build import build_coverage
from streamguard.report.model import (
    Finding,
    Misuse,
    RankFindings,
    RankStart,
    RankSummary,
    WatchedAccess,
)
from tests.unit.raw_findings import coverage


def start(rank: int = 0, *, world_size: int = 1, pid: int | None = None) -> RankStart:
    """The start record of one rank; all ranks are on one host."""
    return RankStart(
        run="run-1",
        rank=rank,
        world_size=world_size,
        local_rank=rank,
        local_world_size=world_size,
        host="0123456789ab",
        pid=1000 + rank if pid is None else pid,
        versions=(("streamguard", "0.1.0"), ("torch", "2.14.1")),
        virtual_devices=2,
        schedule="eager",
    )


def rank_findings(
    rank: int = 0,
    *,
    world_size: int = 1,
    pid: int | None = None,
    ops: int = 120,
    findings: Iterable[Finding] = (),
    misuses: Iterable[Misuse] = (),
    accesses: Iterable[WatchedAccess] = (),
    has_summary: bool = True,
    problems: tuple[str, ...] = (),
) -> RankFindings:
    """Everything one rank wrote."""
    begun = start(rank, world_size=world_size, pid=pid)
    summary = RankSummary(rank, begun.pid, build_coverage(coverage(ops=ops)), problems)
    return RankFindings(
        begun,
        tuple(findings),
        tuple(misuses),
        tuple(accesses),
        summary if has_summary else None,
    )
