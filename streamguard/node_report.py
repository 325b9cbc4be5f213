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

WAIT_S = 30.0
_SAY_AFTER_S = 2.0
_POLL_S = 0.05


def report_path(directory: Path, run: str, host: str) -> Path:
    """Where a node's report on one run is kept; that it exists means that it was printed."""
    return directory / f"report-{run}-{host}.txt"


def print_node_report(
    start: RankStart, directory: Path, *, own: RankFindings | None, patterns: Iterable[str]
) -> None:
    """Wait for the other ranks of this node, then print one report on all of them to stderr.

    The wait ends when every local rank has written its summary or is gone, at most after `WAIT_S`.
    A rank that a slow start has kept from reporting in is waited for as well.

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
    """Wait until every other local rank has a summary or, having reported in, is not alive."""
    begin = time.monotonic()
    is_said = False
    while True:
        awaited = _unfinished(directory, start, is_alive)
        waited_s = time.monotonic() - begin
        if not awaited or waited_s >= timeout_s:
            return
        if waited_s >= _SAY_AFTER_S and not is_said:
            _say_what_is_awaited(awaited, timeout_s)
            is_said = True
        time.sleep(_POLL_S)


def say_that_it_is_late(start: RankStart, directory: Path) -> None:
    """Point a rank that ends after its node's report was printed at the command that shows it."""
    print(
        f"streamguard: rank {start.rank} ended after the report of its node was printed; "
        f"`streamguard show {directory}` reports on all ranks",
        file=sys.stderr,
    )


def _say_what_is_awaited(ranks: list[int], timeout_s: float) -> None:
    names = ", ".join(str(rank) for rank in ranks)
    noun = "rank" if len(ranks) == 1 else "ranks"
    print(
        f"streamguard: the report waits up to {timeout_s:.0f} s for {noun} {names}",
        file=sys.stderr,
        flush=True,
    )


def _unfinished(directory: Path, start: RankStart, is_alive: Callable[[int], bool]) -> list[int]:
    on_node = [
        rank
        for rank in read_directory(directory).ranks
        # A launcher that initialised CUDA is alive as long as we are; it is in no group of ours.
        if _is_on_node(rank.start, start)
        and rank.start.world_size == start.world_size
        and rank.start.attempt == start.attempt
    ]
    reported = {rank.start.rank for rank in on_node}
    unfinished = {
        rank.start.rank
        for rank in on_node
        if rank.summary is None and rank.start.pid != start.pid and is_alive(rank.start.pid)
    }
    if start.rank in reported:  # else this directory cannot be written, by the others neither
        unfinished.update(rank for rank in _node_ranks(start) if rank not in reported)
    return sorted(unfinished)


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
