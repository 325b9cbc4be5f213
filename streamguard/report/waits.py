"""The fewest waits that order every race of a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamguard.report.model import Access, MergedFinding, Report
from streamguard.report.repair import place
from streamguard.report.wording import lane_text, number_list, plural


@dataclass(frozen=True, slots=True)
class NeededWait:
    """One missing wait: of the second access's stream, or the host, for the first's.

    Attributes:
        after: The newest access that has to be complete.
        before: The oldest access that has to wait.
        races: Positions of the races that it orders, in the report's order, from 0.
    """

    after: Access
    before: Access
    races: tuple[int, ...]


def needed_waits(report: Report) -> list[NeededWait]:
    """The smallest set of waits, for each ordered pair of streams, that orders all its races.

    Each race counts as it was first seen. A wait orders the races whose two accesses lie on its
    two sides in issue order, so that the earliest second access decides where one must be. Uses
    after free are left out: no wait repairs them.

    Source:
        Fewest points that hit a set of intervals; greedy by right end is optimal.
    """
    waitable = [
        (index, merged)
        for index, merged in enumerate(report.findings)
        if merged.finding.domain != "lifetime"
    ]
    waits: list[NeededWait] = []
    newest: dict[tuple[object, ...], int] = {}  # position of the newest wait of a pair
    for index, merged in sorted(waitable, key=lambda item: item[1].finding.second.op_id):
        first, second = merged.finding.first, merged.finding.second
        pair = (_read_by(merged), _lane(first), _lane(second))
        known = newest.get(pair)
        if known is not None and first.op_id < waits[known].before.op_id:
            wait = waits[known]
            after = first if first.op_id > wait.after.op_id else wait.after
            waits[known] = NeededWait(after, wait.before, (*wait.races, index))
            continue
        newest[pair] = len(waits)
        waits.append(NeededWait(first, second, (index,)))
    return waits


def waits_lines(report: Report) -> Iterator[str]:
    """The waits as text; nothing for fewer than two races, whose repair says it already."""
    waits = needed_waits(report)
    count = sum(len(wait.races) for wait in waits)
    if count < 2:
        return
    verb = "orders" if len(waits) == 1 else "order"
    yield f"{plural(len(waits), 'wait')} {verb} all {count} races, each as it was first seen"
    for wait in waits:
        yield (
            f"  {lane_text(wait.before)} waits for {lane_text(wait.after)}: after "
            f"{place(wait.after)}, before {place(wait.before)}; "
            f"{plural(len(wait.races), 'race', counted=False)} "
            f"{number_list([race + 1 for race in wait.races])} above"
        )


def _read_by(merged: MergedFinding) -> int:
    """The rank whose reading of a race the report shows; op ids of others are not comparable."""
    return merged.counts[0][0] if merged.counts else 0


def _lane(access: Access) -> tuple[object, ...]:
    if access.on_host or access.stream is None:
        return ("host", access.host_thread)
    return (access.stream.device, access.stream.handle)
