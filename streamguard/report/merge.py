"""Joins what the ranks of a job wrote into one report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from streamguard.report.frames import own_line
from streamguard.report.jsonl import read_rank_file
from streamguard.report.model import (
    Access,
    Finding,
    Frame,
    InsertedWaits,
    MergedAccess,
    MergedFinding,
    MergedMisuse,
    Misuse,
    OrderedAfter,
    RankFindings,
    Report,
    Tries,
    WatchedAccess,
)
from streamguard.report.wording import plural

_DEVICE = re.compile(r" \(device \d+\)")


@dataclass(slots=True)
class DirectoryResult:
    """The ranks found in a directory and a note for everything that could not be read."""

    ranks: list[RankFindings] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_directory(directory: Path) -> DirectoryResult:
    """Read all result files of a directory; a missing or empty directory has no ranks.

    Raises:
        OSError: the directory or a file in it cannot be read.
    """
    result = DirectoryResult()
    for path in sorted(directory.glob("rank-*.jsonl"), key=_file_order):
        # Opening a FIFO waits for somebody who writes.
        if not path.is_file():
            result.notes.append(f"{path}: not a regular file, left out")
            continue
        read = read_rank_file(path)
        if read.rank is not None:
            result.ranks.append(read.rank)
        result.notes.extend(f"damaged record left out: {error}" for error in read.damaged)
    return result


def merge_ranks(
    ranks: Iterable[RankFindings],
    *,
    expected_ranks: Iterable[int] | None = None,
    notes: Iterable[str] = (),
    access_patterns: Iterable[str] = (),
) -> Report:
    """Join ranks into one report.

    The same pair on several ranks becomes one finding with ranks and counts; two pairs of one rank
    are never joined. Where a launcher started the job anew, the report is on the newest attempt; of
    earlier ones it lists the pairs that the newest did not show, and says so.

    Args:
        ranks: One entry for each process that reported.
        expected_ranks: The ranks that should have reported; by default what they say themselves.
        notes: What makes the report incomplete.
        access_patterns: The patterns whose accesses were asked for.
    """
    everybody = sorted(
        _without_launchers(list(ranks)), key=lambda rank: (rank.start.rank, rank.start.pid)
    )
    newest = max((process.start.attempt for process in everybody), default=0)
    processes = [process for process in everybody if process.start.attempt == newest]
    ended = [process for process in everybody if process.start.attempt != newest]
    expected = _expected(processes) if expected_ranks is None else tuple(sorted(expected_ranks))
    reported = {process.start.rank for process in processes}
    problems = [
        f"rank {process.start.rank}: {problem}"
        for process in processes
        if process.summary is not None
        for problem in process.summary.problems
    ]
    merged = _merge_findings(processes)
    merged += _only_in(_merge_findings(ended), merged)
    return Report(
        findings=tuple(m for m in merged if m.finding.inserted is None),
        inserted=tuple(m for m in merged if m.finding.inserted is not None),
        misuses=_merge_misuses(processes),
        accesses=_merge_accesses(processes),
        ranks=tuple(processes),
        expected_ranks=tuple(sorted({*expected, *reported})),
        missing_ranks=tuple(rank for rank in expected if rank not in reported),
        died_ranks=tuple(
            sorted({process.start.rank for process in processes if process.summary is None})
        ),
        notes=(*notes, *_attempt_notes(ended, newest), *problems),
        access_patterns=tuple(access_patterns),
    )


def _only_in(
    earlier: Iterable[MergedFinding], newest: Iterable[MergedFinding]
) -> tuple[MergedFinding, ...]:
    shown = {_pair_key(merged.finding) for merged in newest}
    return tuple(merged for merged in earlier if _pair_key(merged.finding) not in shown)


def _attempt_notes(ended: Sequence[RankFindings], newest: int) -> Iterator[str]:
    for attempt in sorted({process.start.attempt for process in ended}):
        ranks = {process.start.rank for process in ended if process.start.attempt == attempt}
        yield (
            f"attempt {attempt} ({plural(len(ranks), 'rank')}) was started anew; this report is on "
            f"attempt {newest}, with the findings that only earlier attempts showed"
        )


def _without_launchers(processes: Sequence[RankFindings]) -> list[RankFindings]:
    """Leave out processes that initialised CUDA only to look at it, beside those that worked.

    DeepSpeed's launchers import DeepSpeed, which initialises CUDA; they belong to no group.
    """
    is_group_there = any(process.start.world_size > 1 for process in processes)
    is_work_there = any(not process.is_idle for process in processes)

    def is_launcher(process: RankFindings) -> bool:
        if process.start.world_size > 1 or not process.is_idle:
            return False
        return is_group_there or (is_work_there and process.summary is not None)

    return [process for process in processes if not is_launcher(process)]


def _file_order(path: Path) -> tuple[int, int]:
    numbers = [int(part) for part in re.findall(r"\d+", path.stem)]
    return (numbers[0], numbers[-1]) if numbers else (0, 0)


def _expected(processes: Sequence[RankFindings]) -> tuple[int, ...]:
    world_size = max((process.start.world_size for process in processes), default=0)
    selections = {process.start.selected_ranks for process in processes} - {None}
    ranks = range(world_size)
    if not selections:
        return tuple(ranks)
    selected = {rank for selection in selections if selection for rank in selection}
    return tuple(rank for rank in ranks if rank in selected)


@dataclass(slots=True)
class _Entry:
    finding: Finding
    counts: dict[int, int]
    processes: set[int]


def _merge_findings(processes: Sequence[RankFindings]) -> tuple[MergedFinding, ...]:
    entries: dict[tuple[object, ...], list[_Entry]] = {}
    for index, process in enumerate(processes):
        for finding in process.findings:
            candidates = entries.setdefault(_pair_key(finding), [])
            entry = _other_ranks_entry(candidates, finding, index)
            if entry is None:
                candidates.append(_Entry(finding, {process.start.rank: finding.count}, {index}))
                continue
            rank = process.start.rank
            entry.counts[rank] = entry.counts.get(rank, 0) + finding.count
            entry.processes.add(index)
            entry.finding = replace(
                entry.finding,
                inserted=_sum(entry.finding.inserted, finding.inserted),
                tries=sum_tries(entry.finding.tries, finding.tries),
            )
    merged = [entry for group in entries.values() for entry in group]
    return tuple(
        MergedFinding(entry.finding, tuple(sorted(entry.counts.items()))) for entry in merged
    )


def _sum(a: InsertedWaits | None, b: InsertedWaits | None) -> InsertedWaits | None:
    if a is None or b is None:
        return None
    return InsertedWaits(a.running + b.running, a.timed + b.timed, a.waited_ms + b.waited_ms)


def sum_tries(a: Tries | None, b: Tries | None) -> Tries | None:
    """The tries of two findings that are reported as one."""
    if a is None or b is None:
        return a or b
    shown = a if a.showing or not b.showing else b
    return replace(shown, count=a.count + b.count, showing=a.showing + b.showing)


def _other_ranks_entry(candidates: list[_Entry], finding: Finding, process: int) -> _Entry | None:
    """The entry of the same pair seen by other processes; one with the same names if there is."""
    free = [entry for entry in candidates if process not in entry.processes]
    for entry in free:
        if _overlap_names(entry.finding) == _overlap_names(finding):
            return entry
    return free[0] if free else None


def _overlap_names(finding: Finding) -> tuple[str, ...]:
    return tuple(item.name for item in finding.overlap.names_first)


def _pair_key(finding: Finding) -> tuple[object, ...]:
    return (
        finding.code,
        finding.kind,
        finding.domain,
        finding.inserted is None,
        _access_key(finding.first),
        _access_key(finding.second),
    )


def _access_key(access: Access) -> tuple[object, ...]:
    stream = "" if access.stream is None else _DEVICE.sub("", access.stream.name)
    return (access.op, access.kind, access.on_host, stream, _line_key(access.frames))


def _line_key(frames: tuple[Frame, ...]) -> tuple[str, int] | None:
    line = own_line(frames)
    return None if line is None else (line.file, line.line)


def _merge_misuses(processes: Sequence[RankFindings]) -> tuple[MergedMisuse, ...]:
    merged: dict[tuple[object, ...], tuple[Misuse, dict[int, int]]] = {}
    for process in processes:
        for misuse in process.misuses:
            key = (misuse.code, misuse.message, _line_key(misuse.frames))
            _, counts = merged.setdefault(key, (misuse, {}))
            rank = process.start.rank
            counts[rank] = counts.get(rank, 0) + misuse.count
    return tuple(
        MergedMisuse(misuse, tuple(sorted(counts.items()))) for misuse, counts in merged.values()
    )


def _merge_accesses(processes: Sequence[RankFindings]) -> tuple[MergedAccess, ...]:
    """Join accesses of one name that differ only in bytes, step, order and rank.

    The joined row keeps every way in which earlier accesses were ordered, or were not.
    """
    merged: dict[tuple[object, ...], tuple[WatchedAccess, set[int]]] = {}
    for process in processes:
        for access in process.accesses:
            key = _watched_key(access)
            if key not in merged:
                orders = _distinct_orders(access.ordered_after)
                merged[key] = (replace(access, ordered_after=orders), {process.start.rank})
                continue
            earlier, ranks = merged[key]
            steps = [step for step in (earlier.step, access.step) if step is not None]
            joined = replace(
                earlier,
                begin=min(earlier.begin, access.begin),
                end=max(earlier.end, access.end),
                count=earlier.count + access.count,
                step=min(steps, default=None),
                ordered_after=_distinct_orders((*earlier.ordered_after, *access.ordered_after)),
            )
            merged[key] = (joined, ranks | {process.start.rank})
    rows = [MergedAccess(access, tuple(sorted(ranks))) for access, ranks in merged.values()]
    return tuple(sorted(rows, key=lambda row: row.access.name))


def _watched_key(access: WatchedAccess) -> tuple[object, ...]:
    return (
        access.name,
        access.op,
        access.kind,
        _DEVICE.sub("", access.stream),
        _line_key(access.frames),
    )


def _distinct_orders(orders: Iterable[OrderedAfter]) -> tuple[OrderedAfter, ...]:
    """The first of each kind: same op, access, stream and kind of edge."""
    distinct: dict[tuple[str, str, str, str], OrderedAfter] = {}
    for order in orders:
        stream = _DEVICE.sub("", order.stream)
        distinct.setdefault((order.op, order.kind, stream, order.edge.kind), order)
    return tuple(distinct.values())
