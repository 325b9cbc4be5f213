"""The table of accesses to named regions: who wrote, who read, and what orders each pair."""

from __future__ import annotations

from collections.abc import Iterator

from streamguard.report.frames import own_line, short_file
from streamguard.report.model import MergedAccess, OrderedAfter, Report
from streamguard.report.wording import edge_kind, edge_text, is_ordered, number_list, plural


def access_lines(report: Report, *, base: str) -> Iterator[str]:
    """The access table; it says so when nothing matched."""
    patterns = ", ".join(report.access_patterns) or "named regions"
    yield f"accesses to {patterns}"
    if not report.accesses:
        yield "  none: no region of this name was accessed"
    name = ""
    for row in report.accesses:
        if row.access.name != name:
            name = row.access.name
            yield f"  {name}"
        yield from _row_lines(row, base)


def _row_lines(row: MergedAccess, base: str) -> Iterator[str]:
    access = row.access
    line = own_line(access.frames)
    where = "" if line is None else f" ({short_file(line.file, base=base)}:{line.line})"
    step = "" if access.step is None else f", from step {access.step}"
    ranks = f"{plural(len(row.ranks), 'rank', counted=False)} {number_list(row.ranks)}"
    yield (
        f"    {access.kind} by {access.op} on {access.stream}, bytes "
        f"[{access.begin}, {access.end}), {plural(access.count, 'time')} on {ranks}{step}{where}"
    )
    for earlier in access.ordered_after:
        if not _is_stream_order(earlier):
            yield f"      {_order_text(earlier)}"
    own = [earlier.op for earlier in access.ordered_after if _is_stream_order(earlier)]
    if own:
        yield f"      after what its own stream did before: {', '.join(dict.fromkeys(own))}"


def _is_stream_order(earlier: OrderedAfter) -> bool:
    return edge_kind(earlier.edge) == "stream_order"


def _order_text(earlier: OrderedAfter) -> str:
    which = f"the {earlier.kind} by {earlier.op} on {earlier.stream}"
    if not is_ordered(earlier.edge):
        return f"NOT ordered after {which}"
    return f"after {which}: {edge_text(earlier.edge)}"
