"""A report as plain text: no boxes, no colours, the same at every width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from streamguard.report.accesses import access_lines
from streamguard.report.codes import title
from streamguard.report.coverage import coverage_lines
from streamguard.report.frames import fold, short_file
from streamguard.report.model import (
    Access,
    Finding,
    Frame,
    KnownRace,
    MergedFinding,
    MergedMisuse,
    MissingOrder,
    Overlap,
    Report,
    Tries,
)
from streamguard.report.waits import waits_lines
from streamguard.report.wording import (
    bytes_text,
    edge_text,
    lane_text,
    named_bytes_text,
    number_list,
    plural,
    region_text,
)

_VERBS = {"read": "reads", "write": "writes"}


def render(report: Report, *, base: str | None = None) -> str:
    """Write a report as text that ends with one SUMMARY line.

    Args:
        report: The job.
        base: Directory that file names are relative to; by default the current one.
    """
    directory = str(Path.cwd()) if base is None else base
    return "\n".join(_lines(report, directory)) + "\n"


def summary_line(report: Report) -> str:
    """The one line that scripts look for."""
    ops = sum(rank.summary.coverage.ops for rank in report.ranks if rank.summary)
    accesses = sum(rank.summary.coverage.accesses for rank in report.ranks if rank.summary)
    reported = {rank.start.rank for rank in report.ranks}
    waits = ""
    if report.is_enforced:
        waits = f" waits_inserted={report.waits_inserted} wait_sites={len(report.inserted)}"
    if report.is_confirming:
        waits = f" confirmed={report.confirmed}"
    return (
        f"SUMMARY streamguard races={len(report.findings)} misuses={report.misuse_count}{waits}"
        f" ranks={len(reported)}/{len(report.expected_ranks)} ops={ops} accesses={accesses}"
        f" status={report.status}"
    )


def _lines(report: Report, base: str) -> Iterator[str]:
    races = plural(len(report.findings), "race")
    misuses = plural(report.misuse_count, "misuse")
    hints = [merged for merged in report.misuses if merged.is_hint]
    if hints:
        misuses += f", {plural(len(hints), 'hint')}"
    if report.is_enforced:
        inserted = plural(report.waits_inserted, "wait")
        misuses += f"; {inserted} inserted at {plural(len(report.inserted), 'site')}"
    if report.is_confirming:
        misuses += f"; bytes changed by {report.confirmed} of {races}"
    yield f"streamguard: {races}, {misuses}"
    for merged in report.findings:
        yield ""
        yield from finding_lines(merged, base=base, is_confirming=report.is_confirming)
    for merged in report.inserted:
        yield ""
        yield from inserted_lines(merged, base=base)
    for misuse in report.misuses:
        if not misuse.is_hint:
            yield ""
            yield from _misuse_lines(misuse, base)
    if hints:
        yield ""
        yield "hints: no race in this run, but in one where the allocator reuses the bytes sooner"
        yield from (_hint_line(hint, base) for hint in hints)
    waits = tuple(waits_lines(report))
    if waits:
        yield ""
        yield from waits
    if report.access_patterns or report.accesses:
        yield ""
        yield from access_lines(report, base=base)
    yield ""
    yield from coverage_lines(report)
    yield summary_line(report)


def finding_lines(
    merged: MergedFinding, *, base: str, is_confirming: bool = False
) -> Iterator[str]:
    """The lines of one finding; `is_confirming`: what trying it showed belongs to them."""
    finding = merged.finding
    yield f"{finding.code} {title(finding.code)}: {_sentence(finding)}"
    yield from _pair_lines(finding, base)
    if is_confirming:
        yield f"  confirm   {tries_text(finding.tries)}"
    yield f"  suppress  {finding.suppression}"
    yield f"  seen      {_seen(merged.counts, finding.step)}"


def inserted_lines(merged: MergedFinding, *, base: str) -> Iterator[str]:
    """The lines of one pair that inserted waits kept apart."""
    finding = merged.finding
    first, second = finding.first, finding.second
    yield (
        f"inserted wait: {second.op} on {lane_text(second)} was made to wait for "
        f"{lane_text(first)}; else {finding.code}, {title(finding.code)}"
    )
    yield from _pair_lines(finding, base)
    yield from _labelled("cost", _cost_lines(finding, merged.total))
    yield f"  inserted  {_seen(merged.counts, finding.step)}"


def tries_text(tries: Tries | None) -> str:
    """What delaying the first op showed, in one line."""
    if tries is None:
        return "not tried: only a pair whose first op runs on a stream, outside of graphs, can be"
    if not tries.count:
        return "not seen in 0 tries: the pair was not met again with its first op delayed"
    count = "1 try" if tries.count == 1 else f"{tries.count} tries"
    compared = f"{bytes_text(tries.compared_bytes)} compared"
    if not tries.showing:
        return f"not seen in {count} with the first op delayed, {compared}"
    return (
        f"seen: bytes changed in {tries.showing} of {count} with the first op delayed, "
        f"{tries.changed_bytes} of {compared}"
    )


def _cost_lines(finding: Finding, total: int) -> Iterator[str]:
    inserted = finding.inserted
    assert inserted is not None
    running = f"{inserted.running} of {plural(total, 'wait')}"
    yield f"at {running} the awaited work was not over yet when the wait was inserted"
    if inserted.timed:
        mean_us = inserted.waited_ms / inserted.timed * 1000
        yield (
            f"{lane_text(finding.second)} stood still for {inserted.waited_ms:.3f} ms, "
            f"{mean_us:.1f} us a wait (event times of {plural(inserted.timed, 'wait')})"
        )
    else:
        yield "how long it stood still is not known: no event times"


def _pair_lines(finding: Finding, base: str) -> Iterator[str]:
    first, second = finding.first, finding.second
    yield from _access_lines("first", first, base)
    yield from _access_lines("second", second, base)
    yield from _labelled("overlap", _overlap_lines(finding.overlap))
    if finding.domain != "lifetime":
        yield from _missing_lines(finding.missing, first, second)
    yield from _labelled("repair", finding.repair)
    if finding.known is not None:
        yield from _labelled("known", _known_lines(finding.known))


def _sentence(finding: Finding) -> str:
    first, second = finding.first, finding.second
    if finding.domain == "lifetime":
        return f"{second.op} on {lane_text(second)} {_VERBS[second.kind]} bytes that were freed"
    doing = {"read": "reading", "write": "writing"}[first.kind]
    return (
        f"{second.op} on {lane_text(second)} {_VERBS[second.kind]} bytes that {first.op} on "
        f"{lane_text(first)} may still be {doing}; nothing orders the two"
    )


def _access_lines(label: str, access: Access, base: str) -> Iterator[str]:
    collective = access.collective
    suffix = ""
    if collective is not None:
        mode = "asynchronous" if collective.asynchronous else "synchronous"
        suffix = f", {mode} collective of group {collective.group}"
    named = named_bytes_text(access.names) or f"a block without a name ({region_text(access)})"
    yield (
        f"  {label:<8}  {access.op} (op {access.op_id}) {_VERBS[access.kind]} {named} on "
        f"{lane_text(access)}{suffix}"
    )
    yield from _frame_lines(access.frames, base)
    if access.forward_frames:
        yield "            called in forward from"
        yield from _frame_lines(access.forward_frames, base)
    elif not access.frames:
        yield "            no Python line: it ran outside Python code, or stacks are off"


def _frame_lines(frames: tuple[Frame, ...], base: str) -> Iterator[str]:
    folded = fold(frames)
    for frame in folded.shown:
        yield f"            {frame_text(frame, base=base)}"
    if folded.folded:
        yield f"            ({plural(folded.folded, 'more frame')}, of torch and Python)"


def frame_text(frame: Frame, *, base: str) -> str:
    """One frame as file, line and function."""
    return f"{short_file(frame.file, base=base)}:{frame.line} in {frame.function}"


def _overlap_lines(overlap: Overlap) -> Iterator[str]:
    size = bytes_text(overlap.end - overlap.begin)
    names = named_bytes_text(overlap.names_first)
    yield f"{size}: {names}" if names else size
    if overlap.names_second and overlap.names_second != overlap.names_first:
        yield f"called by the second: {named_bytes_text(overlap.names_second)}"


def _missing_lines(missing: MissingOrder, first: Access, second: Access) -> Iterator[str]:
    earlier, later = lane_text(first), lane_text(second)
    yield (
        f"  missing   {later} knows {earlier} up to epoch {missing.known_epoch}; "
        f"the {first.kind} is epoch {missing.needed_epoch}"
    )
    if missing.last_wait is None:
        yield f"            {later} never waited for {earlier}"
    else:
        yield f"            its newest order after {earlier} is {edge_text(missing.last_wait)}"
    if missing.event_after_first:
        yield f"            an event recorded there after the {first.kind} was never waited for"
    else:
        yield f"            no event was recorded there after the {first.kind}"


def _known_lines(known: KnownRace) -> Iterator[str]:
    upstream = f" ({', '.join(known.upstream)})" if known.upstream else ""
    yield f"{known.id}: {known.title}{upstream}"
    running = f"; this is {known.running}" if known.running else ""
    fixed = f"first good release {known.first_good}" if known.first_good else "no release is good"
    yield f"affected releases {known.affected}; {fixed}{running}"
    if known.avoid:
        yield f"avoid with: {known.avoid}"


def _labelled(label: str, lines: Iterable[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        yield f"  {label if index == 0 else '':<8}  {line}"


def _seen(counts: tuple[tuple[int, int], ...], step: int | None) -> str:
    total = sum(count for _, count in counts)
    ranks = [rank for rank, _ in counts]
    times = plural(total, "time")
    where = f" on {plural(len(ranks), 'rank', counted=False)} {number_list(ranks)}"
    first = "" if step is None else f", first in step {step}"
    return f"{times}{where}{first}"


def _misuse_lines(merged: MergedMisuse, base: str) -> Iterator[str]:
    misuse = merged.misuse
    yield f"{misuse.code} {misuse.message}"
    yield from _frame_lines(misuse.frames, base)
    yield f"  seen      {_seen(merged.counts, misuse.step)}"


def _hint_line(merged: MergedMisuse, base: str) -> str:
    hint = merged.misuse
    shown = fold(hint.frames).shown
    where = f" ({frame_text(shown[0], base=base)})" if shown else ""
    return f"  {hint.code} {hint.message}{where}, {_seen(merged.counts, hint.step)}"
