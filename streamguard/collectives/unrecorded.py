"""NCCL's calls that no op of torch.distributed made, as one rank heard them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streamguard.collectives.record import RankLog

_SIZES = {
    **dict.fromkeys(("int8", "float8e4m3", "float8e5m2"), 1),
    **dict.fromkeys(("float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64"), 8),
}
_KINDS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class CallKind:
    """Calls of one function alike.

    Attributes:
        function: As programs call it: "ncclAllReduce".
        dtype: As torch names it; "" where NCCL has no name for it (uint8).
        elements: Of one call, as the program gave them.
        ranks: Of the communicator.
        calls: How many there were among the newest.
        buffers: Names of what they sent or received, where the hooks named it.
    """

    function: str
    dtype: str
    elements: int
    ranks: int
    calls: int
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """What is known of such calls.

    Attributes:
        counts: How many, by function; None where nobody counted them.
        kinds: What NCCL's profiler plugin told of the newest, in order of the first call.
        uncounted: Why those that went around the preloaded library are not among them; "" if they
            are.
    """

    counts: Mapping[str, int] | None = None
    kinds: tuple[CallKind, ...] = ()
    uncounted: str = ""


def unrecorded_of(log: RankLog) -> Unrecorded:
    """What a rank noted at its end; a rank that was killed has noted nothing."""
    for note in log.notes_of("unrecorded"):
        calls = note["calls"]
        if not isinstance(calls, dict):
            break
        counts = {str(name): int(count) for name, count in calls.items()}
        newest = note.get("newest")
        kinds = _kinds(log, newest) if isinstance(newest, list) else ()
        return Unrecorded(counts, kinds, str(note.get("uncounted", "")))
    return Unrecorded()


def unrecorded_lines(unrecorded: Unrecorded, *, uses_devices: bool) -> Iterator[str]:
    """Say it in an audit; nothing where there was none and all were counted."""
    if unrecorded.counts is None:
        if uses_devices:
            yield "note: NCCL calls outside torch.distributed were not counted"
        return
    if unrecorded.counts:
        calls = ", ".join(f"{name} {count} ×" for name, count in unrecorded.counts.items())
        yield f"note: not recorded: NCCL calls outside torch.distributed: {calls}"
    for kind in unrecorded.kinds[:_KINDS_SHOWN]:
        yield f"  {_kind_text(kind)}"
    if len(unrecorded.kinds) > _KINDS_SHOWN:
        yield f"  and {len(unrecorded.kinds) - _KINDS_SHOWN} other kinds of calls"
    if unrecorded.uncounted and uses_devices:
        yield (
            "note: NCCL calls that go around the preloaded library (linked statically, or found by "
            f"dlsym) were not counted: {unrecorded.uncounted}"
        )


def unrecorded_json(unrecorded: Unrecorded) -> dict[str, object]:
    """The fields of an audit's JSON."""
    return {
        "unrecorded": None if unrecorded.counts is None else dict(unrecorded.counts),
        "unrecorded_kinds": [
            {
                "function": kind.function,
                "dtype": kind.dtype,
                "elements": kind.elements,
                "ranks": kind.ranks,
                "calls": kind.calls,
                "buffers": list(kind.buffers),
            }
            for kind in unrecorded.kinds
        ],
        "uncounted": unrecorded.uncounted,
    }


def _kind_text(kind: CallKind) -> str:
    dtype = kind.dtype or "(type without a name)"
    of = f" of {', '.join(kind.buffers)}" if kind.buffers else ""
    return f"{kind.function} {dtype} [{kind.elements}] on {kind.ranks} ranks, {kind.calls} ×{of}"


@dataclass(slots=True)
class _Gathered:
    calls: int = 0
    names: dict[str, None] = field(default_factory=dict)


def _kinds(log: RankLog, newest: list[object]) -> tuple[CallKind, ...]:
    gathered: dict[tuple[str, str, int, int], _Gathered] = {}
    for call in newest:
        if not isinstance(call, dict):
            continue
        dtype = str(call["type"]).removeprefix("nccl").lower()
        dtype = dtype if dtype in _SIZES else ""
        key = str(call["function"]), dtype, int(call["count"]), int(call["ranks"])
        one = gathered.setdefault(key, _Gathered())
        one.calls += 1
        size_bytes = key[2] * _SIZES.get(dtype, 1)
        for begin in (int(call["send"]), int(call["receive"])):
            name = _name_at(log, begin, size_bytes, int(call["time_ns"])) if begin else ""
            if name:
                one.names[name] = None
    return tuple(
        CallKind(*key, calls=one.calls, buffers=tuple(one.names)) for key, one in gathered.items()
    )


def _name_at(log: RankLog, begin: int, size_bytes: int, time_ns: int) -> str:
    given = [name for since, name in log.names_of(begin, begin + size_bytes) if since <= time_ns]
    return given[-1] if given else ""
