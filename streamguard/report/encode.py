"""Turns report data into JSON objects, field by field as `decode` reads them."""

from __future__ import annotations

from streamguard.report.model import (
    Access,
    Coverage,
    Edge,
    Finding,
    Frame,
    InsertedWaits,
    KnownRace,
    Misuse,
    NamedBytes,
    RankStart,
    RankSummary,
    Tries,
    WatchedAccess,
)

Json = dict[str, object]


def encode_finding(finding: Finding) -> Json:
    """The fields of a `race` record."""
    missing = finding.missing
    return {
        "id": finding.id,
        "code": finding.code,
        "kind": finding.kind,
        "domain": finding.domain,
        "count": finding.count,
        "step": finding.step,
        "first": _access(finding.first),
        "second": _access(finding.second),
        "overlap": {
            "begin": finding.overlap.begin,
            "end": finding.overlap.end,
            "names_first": _names(finding.overlap.names_first),
            "names_second": _names(finding.overlap.names_second),
        },
        "missing": {
            "needed_epoch": missing.needed_epoch,
            "known_epoch": missing.known_epoch,
            "last_wait": None if missing.last_wait is None else _edge(missing.last_wait),
            "event_after_first": missing.event_after_first,
        },
        "known": None if finding.known is None else _known(finding.known),
        "repair": list(finding.repair),
        "suppression": finding.suppression,
        "inserted": None if finding.inserted is None else _inserted(finding.inserted),
        "tries": None if finding.tries is None else _tries(finding.tries),
    }


def encode_misuse(misuse: Misuse) -> Json:
    """The fields of a `misuse` record."""
    return {
        "id": misuse.id,
        "code": misuse.code,
        "count": misuse.count,
        "step": misuse.step,
        "message": misuse.message,
        "frames": _frames(misuse.frames),
    }


def encode_watched(access: WatchedAccess) -> Json:
    """The fields of an `access` record."""
    return {
        "name": access.name,
        "op": access.op,
        "access": access.kind,
        "stream": access.stream,
        "step": access.step,
        "count": access.count,
        "offset": [access.begin, access.end],
        "frames": _frames(access.frames),
        "ordered_after": [
            {
                "op": earlier.op,
                "access": earlier.kind,
                "stream": earlier.stream,
                "edge": _edge(earlier.edge),
            }
            for earlier in access.ordered_after
        ],
    }


def encode_coverage(coverage: Coverage) -> Json:
    """What the hooks saw, as part of a `summary` record."""
    return {
        "ops": coverage.ops,
        "accesses": coverage.accesses,
        "collectives": coverage.collectives,
        "waits": coverage.waits,
        "records": coverage.records,
        "syncs": coverage.syncs,
        "waits_inserted": coverage.waits_inserted,
        "waits_not_inserted": coverage.waits_not_inserted,
        "layers": list(coverage.layers),
        "filters": list(coverage.filters),
        "unmatched_filters": list(coverage.unmatched_filters),
        "opaque": dict(coverage.opaque),
        "gave_way": list(coverage.gave_way),
        "silent": list(coverage.silent),
        "launches_observed": coverage.launches_observed,
        "thread_handover_assumed": coverage.thread_handover_assumed,
        "regions": coverage.regions,
        "unregistered_kernels": coverage.unregistered_kernels,
        "unregistered_kernel_names": list(coverage.unregistered_kernel_names),
        "streams": coverage.streams,
        "cuda_initialised": coverage.cuda_initialised,
        "process_group": coverage.process_group,
        "devices": list(coverage.devices),
    }


def encode_start(start: RankStart) -> Json:
    """The fields of a `start` record."""
    return {
        "run": start.run,
        "rank": start.rank,
        "world_size": start.world_size,
        "local_rank": start.local_rank,
        "local_world_size": start.local_world_size,
        "host": start.host,
        "pid": start.pid,
        "versions": dict(start.versions),
        "virtual_devices": start.virtual_devices,
        "schedule": start.schedule,
        "selected_ranks": None if start.selected_ranks is None else list(start.selected_ranks),
        "mode": start.mode,
        "attempt": start.attempt,
    }


def encode_summary(summary: RankSummary) -> Json:
    """The fields of a `summary` record."""
    return {
        "rank": summary.rank,
        "pid": summary.pid,
        "coverage": encode_coverage(summary.coverage),
        "problems": list(summary.problems),
    }


def _access(access: Access) -> Json:
    stream = access.stream
    collective = access.collective
    return {
        "op": access.op,
        "op_id": access.op_id,
        "access": access.kind,
        "on_host": access.on_host,
        "stream": None
        if stream is None
        else {"device": stream.device, "handle": stream.handle, "name": stream.name},
        "host_thread": access.host_thread,
        "epoch": access.epoch,
        "region": {
            "begin": access.region.begin,
            "width": access.region.width,
            "pitch": access.region.pitch,
            "rows": access.region.rows,
        },
        "allocation": access.allocation,
        "names": _names(access.names),
        "frames": _frames(access.frames),
        "forward_frames": _frames(access.forward_frames),
        "collective": None
        if collective is None
        else {"async": collective.asynchronous, "group": collective.group},
    }


def _tries(tries: Tries) -> Json:
    return {
        "count": tries.count,
        "showing": tries.showing,
        "compared_bytes": tries.compared_bytes,
        "changed_bytes": tries.changed_bytes,
    }


def _inserted(inserted: InsertedWaits) -> Json:
    return {
        "running": inserted.running,
        "timed": inserted.timed,
        "waited_ms": inserted.waited_ms,
    }


def _edge(edge: Edge) -> Json:
    return {
        "kind": edge.kind,
        "event": edge.event,
        "from_stream": edge.from_stream,
        "after_op": edge.after_op,
        "before_op": edge.before_op,
    }


def _known(known: KnownRace) -> Json:
    return {
        "id": known.id,
        "title": known.title,
        "upstream": list(known.upstream),
        "affected": known.affected,
        "first_good": known.first_good,
        "avoid": known.avoid,
        "running": known.running,
    }


def _names(names: tuple[NamedBytes, ...]) -> list[Json]:
    return [{"name": item.name, "begin": item.begin, "end": item.end} for item in names]


def _frames(frames: tuple[Frame, ...]) -> list[list[object]]:
    return [[frame.file, frame.line, frame.function] for frame in frames]
