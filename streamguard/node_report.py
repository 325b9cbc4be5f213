"""The report that local rank 0 prints for its node at exit, where no `streamguard run` does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from streamguard.report.merge import merge_ranks, read_directory
from streamguard.report.model import RankFindings, RankStart, Report
from streamguard.report.output import write_text
from streamguard.report.text import render

WAIT_S = 10.0
_POLL_S = 0.05


def report_path(directory: Path, run: str, host: str) -> Path:
    """Where a node's report on one run is kept; that it exists means that it was printed."""
    return directory / f"report-{run}-{host}.txt"


def print_node_report(
    start: RankStart, directory: Path, *, own: RankFindings | None, patterns: Iterable[str]
) -> None:
    """Wait for the other ranks of this node, then print one report on all of them to stderr.

    The wait ends when every local rank has written its summary or is gone, at most after `WAIT_S`.

    Args:
        start: This process.
        directory: Where the ranks' files are.
        own: What this process found, in case it could not be written.
        patterns: The patterns whose accesses were asked for.
    """
    wait_until_written(directory, start, timeout_s=WAIT_S, is_alive=_is_alive)
    result = read_directory(directory)
    ranks = [rank for rank in result.ranks if _is_on_node(rank.start, start)]
    if own is not None:
        ranks = [rank for rank in ranks if rank.start.pid != own.start.pid]
        ranks.append(own)
    report = merge_ranks(
        ranks,
        expected_ranks=_node_ranks(start),
        notes=result.notes,
        access_patterns=patterns,
    )
    print_report(report, keep_at=report_path(directory, start.run, start.host))


def print_report(report: Report, *, keep_at: Path | None = None) -> None:
    """Print a report to stderr and keep it as a file where that works."""
    text = render(report)
    if keep_at is not None:
        try:
            keep_at.write_text(text, encoding="utf-8")
        except OSError:
            # The ranks have said already that the directory cannot be written.
            keep_at = None
    try:
        write_text(text, sys.stderr)
    except (OSError, ValueError):
        # stderr was closed by the program or its reader; there is no other place to complain.
        return


def wait_until_written(
    directory: Path,
    start: RankStart,
    *,
    timeout_s: float,
    is_alive: Callable[[int], bool],
) -> None:
    """Wait until every other local rank that reported in has a summary or is not alive."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not _unfinished(directory, start, is_alive):
            return
        time.sleep(_POLL_S)


def _unfinished(
    directory: Path, start: RankStart, is_alive: Callable[[int], bool]
) -> list[RankFindings]:
    return [
        rank
        for rank in read_directory(directory).ranks
        if rank.summary is None
        and _is_on_node(rank.start, start)
        # A launcher that initialised CUDA is alive as long as we are; it is in no group of ours.
        and rank.start.world_size == start.world_size
        and rank.start.pid != start.pid
        and is_alive(rank.start.pid)
    ]


def _is_on_node(rank: RankStart, start: RankStart) -> bool:
    return rank.run == start.run and rank.host == start.host


def _node_ranks(start: RankStart) -> list[int]:
    first = start.rank - start.local_rank
    ranks = range(first, first + start.local_world_size)
    selected = start.selected_ranks
    return [rank for rank in ranks if selected is None or rank in selected]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
