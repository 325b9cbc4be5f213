"""Turns JSON objects and the hooks' raw dictionaries, which have the same shape, into report data.

Every function raises `FieldError` when a field is absent or of the wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamguard.report.fields import FieldError, Fields
from streamguard.report.model import (
    Access,
    AccessKind,
    Collective,
    Coverage,
    Edge,
    Finding,
    Frame,
    InsertedWaits,
    KnownRace,
    MissingOrder,
    Misuse,
    Mode,
    NamedBytes,
    OrderedAfter,
    Overlap,
    RankStart,
    RankSummary,
    Region,
    Stream,
    Tries,
    WatchedAccess,
)

# Larger than any job; the missing ranks of a damaged file would be listed one by one.
MAX_RANKS = 1_000_000


def decode_finding(values: Mapping[str, object]) -> Finding:
    """Read a finding; `known`, `repair` and `suppression` may be absent."""
    fields = Fields(values)
    known = fields.optional_child("known")
    return Finding(
        id=fields.integer("id"),
        code=fields.text("code"),
        kind=fields.one_of("kind", "RAW", "WAR", "WAW", "UAF"),
        domain=fields.one_of("domain", "device", "host", "reuse", "lifetime"),
        count=fields.integer("count"),
        step=fields.optional_integer("step"),
        first=_access(fields.child("first")),
        second=_access(fields.child("second")),
        overlap=_overlap(fields.child("overlap")),
        missing=_missing(fields.child("missing")),
        known=None if known is None else _known(known),
        repair=fields.texts("repair"),
        suppression=fields.text("suppression", ""),
        inserted=_inserted(fields.optional_child("inserted")),
        tries=_tries(fields.optional_child("tries")),
    )


def decode_misuse(values: Mapping[str, object]) -> Misuse:
    """Read a misuse."""
    fields = Fields(values)
    return Misuse(
        id=fields.integer("id"),
        code=fields.text("code"),
        count=fields.integer("count"),
        step=fields.optional_integer("step"),
        message=fields.text("message"),
        frames=_frames(fields, "frames"),
    )


def decode_watched(values: Mapping[str, object]) -> WatchedAccess:
    """Read one access of a listed region."""
    fields = Fields(values)
    begin, end = _pair(fields, "offset")
    return WatchedAccess(
        name=fields.text("name"),
        op=fields.text("op"),
        kind=_kind(fields),
        stream=fields.text("stream"),
        step=fields.optional_integer("step"),
        count=fields.integer("count", 1),
        begin=begin,
        end=end,
        frames=_frames(fields, "frames"),
        ordered_after=tuple(
            OrderedAfter(
                op=earlier.text("op"),
                kind=_kind(earlier),
                stream=earlier.text("stream"),
                edge=_edge(earlier.child("edge")),
            )
            for earlier in fields.children("ordered_after")
        ),
    )


def decode_coverage(values: Mapping[str, object]) -> Coverage:
    """Read what the hooks saw; an absent count is 0. `streams` is a list or, in files, a number."""
    fields = Fields(values)
    opaque = fields.optional_child("opaque")
    streams = values.get("streams", 0)
    listed = isinstance(streams, (list, tuple))
    return Coverage(
        ops=fields.integer("ops"),
        accesses=fields.integer("accesses", 0),
        collectives=fields.integer("collectives", 0),
        waits=fields.integer("waits", 0),
        records=fields.integer("records", 0),
        syncs=fields.integer("syncs", 0),
        waits_inserted=fields.integer("waits_inserted", 0),
        waits_not_inserted=fields.integer("waits_not_inserted", 0),
        filters=fields.texts("filters"),
        unmatched_filters=fields.texts("unmatched_filters"),
        layers=fields.texts("layers"),
        opaque=()
        if opaque is None
        else tuple(sorted((name, opaque.integer(name)) for name in opaque.names())),
        gave_way=fields.texts("gave_way"),
        silent=fields.texts("silent"),
        launches_observed=fields.truth("launches_observed", False),
        thread_handover_assumed=fields.truth("thread_handover_assumed", True),
        regions=fields.integer("regions", 0),
        unregistered_kernels=fields.integer("unregistered_kernels", 0),
        unregistered_kernel_names=fields.texts("unregistered_kernel_names"),
        streams=len(fields.items("streams")) if listed else fields.integer("streams", 0),
        cuda_initialised=fields.truth("cuda_initialised", False),
        process_group=fields.truth("process_group", False),
        devices=fields.texts("devices"),
    )


def decode_start(values: Mapping[str, object]) -> RankStart:
    """Read the first record of a rank's file."""
    fields = Fields(values)
    versions = fields.child("versions")
    return RankStart(
        run=fields.text("run"),
        rank=fields.integer("rank"),
        world_size=fields.count("world_size", at_most=MAX_RANKS),
        local_rank=fields.integer("local_rank"),
        local_world_size=fields.count("local_world_size", at_most=MAX_RANKS),
        host=fields.text("host"),
        pid=fields.integer("pid"),
        versions=tuple((name, versions.text(name)) for name in versions.names()),
        virtual_devices=fields.optional_integer("virtual_devices"),
        schedule=fields.text("schedule", ""),
        selected_ranks=fields.optional_integers("selected_ranks"),
        mode=_mode(fields),
        attempt=fields.optional_integer("attempt") or 0,
    )


def _mode(fields: Fields) -> Mode:
    match fields.text("mode", "watch"):
        case "watch":
            return "watch"
        case "enforce":
            return "enforce"
        case "confirm":
            return "confirm"
        case other:
            raise FieldError(f"field 'mode' is {other!r}; expected watch, enforce or confirm")


def decode_summary(values: Mapping[str, object]) -> RankSummary:
    """Read the last record of a rank's file."""
    fields = Fields(values)
    coverage = values.get("coverage")
    if not isinstance(coverage, Mapping):
        raise FieldError("field 'coverage' is missing or no object")
    return RankSummary(
        rank=fields.integer("rank"),
        pid=fields.integer("pid"),
        coverage=decode_coverage(coverage),
        problems=fields.texts("problems"),
    )


def _access(fields: Fields) -> Access:
    stream = fields.optional_child("stream")
    collective = fields.optional_child("collective")
    region = fields.child("region")
    return Access(
        op=fields.text("op"),
        op_id=fields.integer("op_id"),
        kind=_kind(fields),
        on_host=fields.truth("on_host"),
        stream=None
        if stream is None
        else Stream(stream.integer("device"), stream.integer("handle"), stream.text("name")),
        host_thread=fields.optional_integer("host_thread"),
        epoch=fields.integer("epoch"),
        region=Region(
            region.integer("begin"),
            region.integer("width"),
            region.integer("pitch"),
            region.integer("rows"),
        ),
        allocation=fields.integer("allocation"),
        names=_names(fields, "names"),
        frames=_frames(fields, "frames"),
        forward_frames=_frames(fields, "forward_frames"),
        collective=None
        if collective is None
        else Collective(collective.truth("async"), collective.text("group")),
    )


def _kind(fields: Fields) -> AccessKind:
    return "read" if fields.one_of("access", "read", "write") == "read" else "write"


def _overlap(fields: Fields) -> Overlap:
    return Overlap(
        begin=fields.integer("begin"),
        end=fields.integer("end"),
        names_first=_names(fields, "names_first"),
        names_second=_names(fields, "names_second"),
    )


def _missing(fields: Fields) -> MissingOrder:
    last_wait = fields.optional_child("last_wait")
    return MissingOrder(
        needed_epoch=fields.integer("needed_epoch"),
        known_epoch=fields.integer("known_epoch"),
        last_wait=None if last_wait is None else _edge(last_wait),
        event_after_first=fields.truth("event_after_first", False),
    )


def _inserted(fields: Fields | None) -> InsertedWaits | None:
    if fields is None:
        return None
    return InsertedWaits(
        running=fields.integer("running"),
        timed=fields.integer("timed"),
        waited_ms=fields.number("waited_ms"),
    )


def _tries(fields: Fields | None) -> Tries | None:
    if fields is None:
        return None
    return Tries(
        count=fields.integer("count"),
        showing=fields.integer("showing"),
        compared_bytes=fields.integer("compared_bytes"),
        changed_bytes=fields.integer("changed_bytes"),
    )


def _edge(fields: Fields) -> Edge:
    return Edge(
        kind=fields.text("kind"),
        event=fields.integer("event", 0),
        from_stream=fields.text("from_stream", ""),
        after_op=fields.integer("after_op", 0),
        before_op=fields.integer("before_op", 0),
    )


def _known(fields: Fields) -> KnownRace:
    return KnownRace(
        id=fields.text("id"),
        title=fields.text("title"),
        upstream=fields.texts("upstream"),
        affected=fields.text("affected", ""),
        first_good=fields.text("first_good", ""),
        avoid=fields.text("avoid", ""),
        running=fields.text("running", ""),
    )


def _names(fields: Fields, name: str) -> tuple[NamedBytes, ...]:
    return tuple(
        NamedBytes(item.text("name"), item.integer("begin"), item.integer("end"))
        for item in fields.children(name)
    )


def _frames(fields: Fields, name: str) -> tuple[Frame, ...]:
    frames = []
    for index, item in enumerate(fields.items(name)):
        if not isinstance(item, (list, tuple)) or len(item) != 3:
            raise FieldError(f"{name}[{index}] is {item!r}; expected [file, line, function]")
        file, line, function = item
        if not (isinstance(file, str) and isinstance(line, int) and isinstance(function, str)):
            raise FieldError(f"{name}[{index}] is {item!r}; expected [file, line, function]")
        frames.append(Frame(file, line, function))
    return tuple(frames)


def _pair(fields: Fields, name: str) -> tuple[int, int]:
    items = fields.items(name)
    if len(items) != 2:
        raise FieldError(f"field {name!r} has {len(items)} items; expected [begin, end]")
    begin, end = items
    if not (isinstance(begin, int) and isinstance(end, int)):
        raise FieldError(f"field {name!r} is {list(items)!r}; expected two integers")
    return begin, end
