"""Compares what a job sent with what its scheme must send at least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamguard.collectives.phases import phase_of, place
from streamguard.collectives.record import MUTABLE, OPS, RankLog, dtype_name
from streamguard.collectives.theory import Scheme, bus_factor, payload_bytes, wire_bytes
from streamguard.collectives.unrecorded import Unrecorded, unrecorded_of

# Below this size a call's time is latency and not bandwidth, on links of 10 to 400 GB/s.
SMALL_BYTES = 64 * 1024
MANY_CALLS = 32
PHASES = (
    *("gradients", "parameters", "norm", "overflow", "pipeline", "forward", "backward", "step"),
    *("setup", "other"),
)
_REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce_scatter_tensor", "reduce")


@dataclass(frozen=True, slots=True)
class Row:
    """All calls of one op for one purpose on one group, summed over the audited steps.

    Attributes:
        payload_bytes: Sum of the whole tensors the group worked on.
        wire_bytes: Sum of what this rank sends for them, by the best algorithm.
        buffers: Names of the buffers, where the hooks named them; in order of their first use.
        seconds: Sum of the measured times, of `timed_bytes` payload; 0 where nothing was timed.
    """

    phase: str
    op: str
    dtype: str
    group: str
    group_size: int
    calls: int
    payload_bytes: int
    wire_bytes: Fraction
    median_bytes: int
    elements: int
    seconds: float
    timed_payload_bytes: int
    timed_bus_bytes: Fraction
    place: str
    buffers: tuple[str, ...] = ()

    @property
    def algorithm_bandwidth(self) -> float | None:
        """Payload bytes a second; None when nothing was timed."""
        has_rate = self.seconds > 0 and self.timed_payload_bytes > 0
        return self.timed_payload_bytes / self.seconds if has_rate else None

    @property
    def bus_bandwidth(self) -> float | None:
        """The same times the op's bus factor for the group's size; None when nothing was timed."""
        rate = self.algorithm_bandwidth
        return None if rate is None else float(self.timed_bus_bytes) / self.seconds


@dataclass(frozen=True, slots=True)
class Comparison:
    """One purpose against its minimum, in bytes that one rank sends per step."""

    phase: str
    op: str
    sent_bytes: Fraction
    minimum_bytes: Fraction

    @property
    def ratio(self) -> float:
        """Sent by minimum."""
        return float(self.sent_bytes / self.minimum_bytes)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something about the traffic; only SG301 counts against a budget."""

    code: str
    text: str
    repair: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The traffic of one rank, which a data-parallel job's other ranks repeat.

    Attributes:
        recorded: Calls in the ring.
        lost: Older calls that the ring no longer holds.
        unrecorded: NCCL's calls that no op of torch.distributed made.
        uses_devices: Some call was made on a CUDA stream.
        untimed: Why NCCL's calls were not timed though that was asked for; "" otherwise.
    """

    rank: int
    steps: int
    scheme: Scheme | None
    library: str
    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...]
    findings: tuple[AuditFinding, ...]
    recorded: int
    lost: int
    untimed: str = ""
    unrecorded: Unrecorded = field(default_factory=Unrecorded)
    uses_devices: bool = False

    @property
    def worst_ratio(self) -> float | None:
        """The highest ratio to a minimum; None when there is no minimum to compare with."""
        return max((c.ratio for c in self.comparisons), default=None)


def scheme_of(notes: Iterable[Mapping[str, object]]) -> tuple[Scheme | None, str]:
    """The last scheme that a library announced, and the library's name."""
    found: tuple[Scheme | None, str] = (None, "")
    for note in notes:
        settings = note.get("settings", {})
        pairs = tuple(settings.items()) if isinstance(settings, dict) else ()
        scheme = Scheme(
            str(note["name"]),
            max(1, _number(note, "ranks", 1)),
            max(0, _number(note, "parameters", 0)),
            max(1, _number(note, "accumulation", 1)),
            max(1, _number(note, "gathers", 2)),
            pairs,
        )
        found = scheme, str(note.get("library", "torch"))
    return found


def audit_rank(log: RankLog, scheme: Scheme | None = None) -> Audit:
    """Audit one rank's record.

    The first step is left out where there are others: it sets things up. So is what came after
    the last complete step.

    Args:
        log: The record.
        scheme: Overrules the one that the libraries announced.
    """
    announced, library = scheme_of(log.notes_of("scheme"))
    scheme = announced if scheme is None else scheme
    records = log.records
    last = int(records["step"].max()) if len(records) else 0
    # The last step ends with no call behind it; a killed rank has not said how many it made.
    last = max([last, *(_number(note, "steps", 0) for note in log.notes_of("end"))])
    if last >= 2:
        records = records[(records["step"] >= 1) & (records["step"] < last)]
        steps = last - 1
    elif last == 1:
        records = records[records["step"] == 0]
        steps = 1
    else:
        steps = 0
    rows = _rows(log, records, drop_setup=last == 1)
    comparisons = _compare(rows, scheme, steps) if scheme is not None and steps else ()
    findings = tuple(_findings(log, records, rows, comparisons, scheme, steps))
    return Audit(
        log.rank, steps, scheme, library, rows, comparisons, findings, len(log.records), log.lost,
        untimed=next((str(note["reason"]) for note in log.notes_of("untimed")), ""),
        unrecorded=unrecorded_of(log), uses_devices=bool((log.records["stream"] != -1).any()),
    )  # fmt: skip


def _number(note: Mapping[str, object], key: str, default: int) -> int:
    value = note.get(key, default)
    return value if isinstance(value, int) else default


def _rows(log: RankLog, records: np.ndarray, *, drop_setup: bool) -> tuple[Row, ...]:
    keys: dict[tuple[str, str, str, int], list[int]] = {}
    phases: dict[tuple[int, int, int], str] = {}
    for i, record in enumerate(records):
        op, site, flags = int(record["op"]), int(record["site"]), int(record["flags"])
        phase = phases.get((op, site, flags))
        if phase is None:
            phase = phases[op, site, flags] = phase_of(log.sites.get(site, ()), OPS[op], flags)
        if drop_setup and phase == "setup":
            continue
        key = phase, OPS[op], dtype_name(int(record["dtype"])), int(record["group"])
        keys.setdefault(key, []).append(i)
    rows = [_row(log, records[index], *key) for key, index in keys.items()]
    return tuple(sorted(rows, key=lambda row: (PHASES.index(row.phase), -row.wire_bytes)))


def _row(log: RankLog, chosen: np.ndarray, phase: str, op: str, dtype: str, number: int) -> Row:
    group = log.groups.get(number)
    size = len(group.ranks) if group else 1
    payloads = [
        payload_bytes(op, int(r["input_bytes"]), int(r["output_bytes"]), size) for r in chosen
    ]
    # The root of a reduction only receives.
    own = group.ranks.index(log.rank) if group and log.rank in group.ranks else -1
    wires = [
        Fraction(0)
        if op == "reduce" and int(r["peer"]) == own
        else wire_bytes(op, int(r["input_bytes"]), int(r["output_bytes"]), size)
        for r in chosen
    ]
    timed = [i for i, r in enumerate(chosen) if r["end_ns"]]
    largest = chosen[int(np.argmax(chosen["input_bytes"]))]
    return Row(
        phase, op, dtype, group.name if group else f"group {number}", size,
        calls=len(chosen),
        payload_bytes=sum(payloads),
        wire_bytes=sum(wires, Fraction(0)),
        median_bytes=int(np.median(payloads)),
        elements=int(np.maximum(chosen["input_count"], chosen["output_count"]).sum()),
        seconds=sum((int(chosen[i]["end_ns"]) - int(chosen[i]["start_ns"])) / 1e9 for i in timed),
        timed_payload_bytes=sum(payloads[i] for i in timed),
        timed_bus_bytes=sum(payloads[i] for i in timed) * bus_factor(op, size),
        place=place(log.sites.get(int(largest["site"]), ())),
        buffers=_buffers(log, chosen),
    )  # fmt: skip


def _buffers(log: RankLog, chosen: np.ndarray) -> tuple[str, ...]:
    if not log.notes_of("name"):
        return ()
    names: dict[tuple[int, int], list[tuple[int, str]]] = {}
    found: dict[str, None] = {}
    for record in chosen:
        region = int(record["buffer"]), int(record["buffer"]) + int(record["input_bytes"])
        if region not in names:
            names[region] = log.names_of(*region)
        given = [name for time_ns, name in names[region] if time_ns <= int(record["begin_ns"])]
        if given:
            found[given[-1]] = None
    return tuple(found)


def _compare(rows: tuple[Row, ...], scheme: Scheme, steps: int) -> tuple[Comparison, ...]:
    result = []
    for phase, minimum in (
        ("gradients", scheme.gradient_minimum),
        ("parameters", scheme.parameter_minimum),
    ):
        chosen = [row for row in rows if row.phase == phase and row.group_size > 1]
        if not chosen:
            continue
        largest = max(chosen, key=lambda row: row.wire_bytes)
        bound = minimum(max(largest.payload_bytes // max(largest.elements, 1), 1))
        if bound == 0:
            continue
        sent = sum((row.wire_bytes for row in chosen), Fraction(0)) / steps
        result.append(Comparison(phase, largest.op, sent, bound))
    return tuple(result)


def _findings(
    log: RankLog,
    records: np.ndarray,
    rows: tuple[Row, ...],
    comparisons: tuple[Comparison, ...],
    scheme: Scheme | None,
    steps: int,
) -> Iterable[AuditFinding]:
    settings = dict(scheme.settings) if scheme is not None else {}
    for comparison in comparisons:
        yield from _above_minimum(comparison, settings, scheme)
    for row in rows:
        if row.phase == "gradients" and scheme is not None and steps and row.group_size > 1:
            per_step = row.elements / steps / scheme.accumulation
            excess = per_step / max(scheme.parameters, 1)
            if excess > 1.05 and row.op in _REDUCTIONS:
                yield AuditFinding(
                    "SG304",
                    f"{row.op} of {excess:.2f} P elements per micro-batch, where there are "
                    f"P = {scheme.parameters} gradients: the rest is padding, an uninitialised "
                    f"tail, or a gradient reduced twice ({row.place})",
                    "reduce only the filled part of the bucket",
                )
        is_norm = row.phase == "norm" and row.op.startswith("all_reduce")
        if steps and is_norm and row.calls / steps >= 2:
            yield AuditFinding(
                "SG305",
                f"{row.calls / steps:g} norm reductions a step on {row.group} ({row.place}): "
                "one for each optimizer group",
                "sum the squares of all groups and reduce once; ranks with unequal numbers of "
                "groups hang here",
            )
        small = row.median_bytes < SMALL_BYTES and row.payload_bytes > 0
        if steps and small and row.calls / steps >= MANY_CALLS:
            yield AuditFinding(
                "SG302",
                f"{row.calls / steps:g} {row.op} a step in {row.phase}, half of them at most "
                f"{row.median_bytes} bytes: their time is latency ({row.place})",
                "coalesce them: a larger bucket, or the coalesced form of the op",
            )
    yield from _duplicates(log, records)


def _above_minimum(
    comparison: Comparison, settings: dict[str, object], scheme: Scheme | None
) -> Iterable[AuditFinding]:
    if comparison.ratio <= 1.05:
        return
    is_sharded = scheme is not None and scheme.is_sharded
    text = f"{comparison.phase}: {comparison.op} {comparison.ratio:.2f} × minimum"
    repair = "send each byte once, to the ranks that need it"
    if comparison.phase == "gradients" and scheme is not None and scheme.name == "DDP":
        repair = (
            "reduce each gradient once a step; of several micro-batches run all but the last under "
            "`no_sync()`"
        )
    if comparison.phase == "gradients" and is_sharded and comparison.op == "all_reduce":
        text += "; reduce_scatter would send 1.00 ×"
        if settings.get("reduce_scatter") is True:
            text += (
                ". DeepSpeed's `reduce_scatter: true` does not call reduce_scatter in stages 1 and "
                "2: it all-reduces each bucket and keeps a part"
            )
        repair = "use streamguard.zero's reducer, or stage 3, which reduce-scatters"
    yield AuditFinding("SG301", text, repair)


def _duplicates(log: RankLog, records: np.ndarray) -> Iterable[AuditFinding]:
    """The same bytes reduced again though no op of torch has written them in between."""
    newest: dict[tuple[int, int], np.void] = {}
    found: dict[tuple[int, int], int] = {}
    for record in records:
        op = OPS[int(record["op"])]
        if not op.startswith("all_reduce") or not int(record["flags"]) & MUTABLE:
            continue
        key = int(record["group"]), int(record["buffer"])
        before = newest.get(key)
        newest[key] = record
        if before is None or not int(record["input_bytes"]) > SMALL_BYTES:
            continue
        same = all(before[f] == record[f] for f in ("version", "input_bytes", "step"))
        # Fresh memory at the same address has version 0 too; one that was written has not.
        if same and int(record["version"]) > 0:
            sites = int(before["site"]), int(record["site"])
            found[sites] = found.get(sites, 0) + 1
    for (first, second), count in found.items():
        yield AuditFinding(
            "SG303",
            f"the same buffer is reduced again, unchanged, {count} times: first at "
            f"{place(log.sites.get(first, ()))}, again at {place(log.sites.get(second, ()))}",
            "reduce it once",
        )
