"""The lines that say what was seen, and so how far the findings can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

from streamguard.report.model import Coverage, RankFindings, Report
from streamguard.report.wording import joined, number_list, plural


def coverage_lines(report: Report) -> Iterator[str]:
    """One line a rank, then what is missing."""
    for rank in report.ranks:
        yield f"coverage rank {rank.start.rank}: {_rank_text(rank)}"
    if report.missing_ranks:
        ranks = plural(len(report.missing_ranks), "rank", counted=False)
        yield f"incomplete: {ranks} {number_list(report.missing_ranks)} never reported in"
    if report.died_ranks:
        ranks = plural(len(report.died_ranks), "rank", counted=False)
        yield (
            f"incomplete: {ranks} {number_list(report.died_ranks)} wrote no summary (killed, or "
            "still running); findings made before are kept"
        )
    for note in report.notes:
        yield f"incomplete: {note}"
    for text in report.unmatched_filters:
        kind, _, pattern = text.partition(" ")
        yield f"incomplete: no {kind[:-1]} is called '{pattern}' (--{kind})"
    if report.checked_nothing:
        yield f"checked nothing: {_nothing_reason(report)}"


def _rank_text(rank: RankFindings) -> str:
    if rank.summary is None:
        return f"unknown, no summary; {plural(len(rank.findings), 'finding')} kept"
    coverage = rank.summary.coverage
    seen = joined(
        (
            plural(coverage.ops, "op"),
            f"{coverage.accesses} accesses",
            plural(coverage.collectives, "collective"),
            plural(coverage.records, "record"),
            plural(coverage.waits, "wait"),
            plural(coverage.syncs, "sync"),
            plural(coverage.streams, "stream"),
            _enforced(rank),
        )
    )
    return "; ".join(part for part in (seen, _limits(coverage), _device(rank)) if part)


def _enforced(rank: RankFindings) -> str:
    if rank.start.mode != "enforce" or rank.summary is None:
        return ""
    coverage = rank.summary.coverage
    inserted = f"{plural(coverage.waits_inserted, 'wait')} inserted"
    if not coverage.waits_not_inserted:
        return inserted
    return (
        f"{inserted}, {coverage.waits_not_inserted} not possible (stream in a capture, or no event)"
    )


def _limits(coverage: Coverage) -> str:
    layers = " ".join(coverage.layers) or "none"
    gave_way = f"gave way: {', '.join(coverage.gave_way)}" if coverage.gave_way else ""
    silent = f"silent: {', '.join(coverage.silent)}" if coverage.silent else ""
    launches = "" if coverage.launches_observed else "launches not observed"
    opaque = ", ".join(f"{name} {count}" for name, count in coverage.opaque)
    if opaque or coverage.launches_observed:
        opaque = f"opaque {opaque or '0'}"
    unregistered = ""
    if coverage.unregistered_kernels:
        unregistered = f"{plural(coverage.unregistered_kernels, 'kernel')} registered too late"
        names = " ".join(coverage.unregistered_kernel_names)
        unregistered += f" ({names})" if names else ""
    handover = "thread hand-over assumed" if coverage.thread_handover_assumed else ""
    return "; ".join(
        part
        for part in (f"layers {layers}", gave_way, silent, launches, opaque, unregistered, handover)
        if part
    )


def _device(rank: RankFindings) -> str:
    if rank.start.virtual_devices is None:
        devices = () if rank.summary is None else rank.summary.coverage.devices
        return (
            f"{plural(len(devices), 'device', counted=False)} {', '.join(devices)}"
            if devices
            else ""
        )
    return f"virtual GPU, schedule {rank.start.schedule}"


def _nothing_reason(report: Report) -> str:
    if not report.ranks:
        return (
            "no process initialised CUDA or a process group. If one should have, look whether "
            "streamguard is installed in the Python that ran the program"
        )
    if all(rank.summary is None for rank in report.ranks):
        return "no rank wrote a summary: killed, or ended by os._exit; what it ran is not known"
    if report.is_filtered_out:
        return "the filter fits nothing, so no race could be reported; this run proves nothing"
    return "ranks took part, but no op on CUDA memory was seen; this run proves nothing"
