"""Small phrases that several parts of a report share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from streamguard.report.model import Access, Edge, NamedBytes

_SHOWN_NAMES = 4

_EDGES = {
    "stream_order": "the order of one stream",
    "event_wait": "a wait for an event",
    "host_wait": "a wait on the host",
    "legacy_fence": "the fence of the legacy default stream",
    "host_issue": "the order in which the host issued them",
    "allocator": "the allocator's own events",
    "message": "a message between threads",
}


def plural(count: int, noun: str, *, counted: bool = True) -> str:
    """A noun in the number that fits, with the count unless it is told apart."""
    word = noun if count == 1 else f"{noun}s"
    return f"{count} {word}" if counted else word


def bytes_text(size_bytes: int) -> str:
    """A size with its unit."""
    return plural(size_bytes, "byte")


def number_list(numbers: Sequence[int]) -> str:
    """Numbers with ranges closed up, such as `0-3, 7`."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for index in range(len(ordered)):
        last = index + 1 == len(ordered)
        if not last and ordered[index + 1] == ordered[index] + 1:
            continue
        first, final = ordered[start], ordered[index]
        parts.append(str(first) if first == final else f"{first}-{final}")
        start = index + 1
    return ", ".join(parts)


def lane_text(access: Access) -> str:
    """Where an access ran: its stream's name, or the host."""
    return "the host" if access.stream is None else access.stream.name


def region_text(access: Access) -> str:
    """The shape of an access whose bytes have no name."""
    region = access.region
    if region.rows <= 1 or region.pitch == region.width:
        size = bytes_text(region.width * max(region.rows, 1))
        return f"allocation {access.allocation}, {size}"
    return (
        f"allocation {access.allocation}, {region.rows} rows of {bytes_text(region.width)} "
        f"every {region.pitch}"
    )


def named_bytes_text(names: Sequence[NamedBytes]) -> str:
    """Named bytes, the first few; empty where nothing has a name."""
    shown = [f"{item.name} bytes [{item.begin}, {item.end})" for item in names[:_SHOWN_NAMES]]
    if len(names) > _SHOWN_NAMES:
        shown.append(f"{len(names) - _SHOWN_NAMES} more")
    # Names hold commas, such as "ipg_buffer[0], gradient of layers.3.weight".
    return "; ".join(shown)


def edge_text(edge: Edge) -> str:
    """What an edge is, and between which ops."""
    kind = edge_kind(edge)
    phrase = _EDGES.get(kind, kind.replace("_", " "))
    if kind == "event_wait" and edge.event:
        phrase = f"a wait for event {edge.event:#x}"
    source = f" of {edge.from_stream}" if edge.from_stream else ""
    span = f" (recorded after op {edge.after_op}, waited for before op {edge.before_op})"
    return f"{phrase}{source}{span if kind == 'event_wait' else ''}"


def is_ordered(edge: Edge) -> bool:
    """Whether the edge orders anything."""
    return edge_kind(edge) not in ("none", "")


def edge_kind(edge: Edge) -> str:
    """The kind in snake case, however the engine spells it (`kEventWait`, `event_wait`)."""
    name = re.sub(r"^k(?=[A-Z])", "", edge.kind)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def joined(parts: Iterable[str]) -> str:
    """Parts that are not empty, separated by commas."""
    return ", ".join(part for part in parts if part)
