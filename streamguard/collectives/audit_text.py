"""An audit as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from streamguard.collectives.audit import Audit, Row
from streamguard.collectives.unrecorded import unrecorded_json, unrecorded_lines

_BUFFERS_SHOWN = 8


def size_text(count: float) -> str:
    """Bytes with a decimal unit, as network rates are given."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.2f} {unit}"
    return f"{count:g} B" if count == int(count) else f"{count:.1f} B"


def render(audit: Audit) -> str:
    """The audit of one rank, for a person."""
    lines = [_headline(audit)]
    if audit.lost:
        lines.append(
            f"note: the oldest {audit.lost} calls are no longer in the ring; steps that began "
            "among them are counted in part"
        )
    if not audit.steps:
        lines.append("note: no complete optimizer step was seen; nothing is compared with theory")
    lines += unrecorded_lines(audit.unrecorded, uses_devices=audit.uses_devices)
    if audit.untimed:
        lines.append(f"note: NCCL's calls are not timed: {audit.untimed}")
    total = sum((row.wire_bytes for row in audit.rows), Fraction(0)) or Fraction(1)
    table: list[tuple[str, ...]] = [
        ("phase", "op", "group", "calls", "bytes", "share", "median", "algbw", "busbw")
    ]
    for row in audit.rows:
        table.append(_cells(row, max(audit.steps, 1), total))
    lines += _aligned(table)
    lines.append(
        "(calls and bytes per step; bytes: what one rank sends; median: one call's tensor)"
    )
    lines += [
        f"{row.phase} {row.op}: {_buffers_text(row.buffers)}" for row in audit.rows if row.buffers
    ]
    for comparison in audit.comparisons:
        lines.append(
            f"{comparison.phase}: {comparison.op} {comparison.ratio:.2f} × minimum: "
            f"{_exact(comparison.sent_bytes)} sent a step, "
            f"{_exact(comparison.minimum_bytes)} needed"
        )
    for finding in audit.findings:
        lines += ["", f"{finding.code} {finding.text}", f"  repair: {finding.repair}"]
    lines.append("")
    lines.append(_summary(audit))
    return "\n".join(lines) + "\n"


def to_json(audit: Audit) -> dict[str, object]:
    """The audit as one JSON object; bytes are exact, fractions are rounded up."""
    return {
        "type": "collective_audit",
        "rank": audit.rank,
        "steps": audit.steps,
        "scheme": None
        if audit.scheme is None
        else {
            "name": audit.scheme.name,
            "ranks": audit.scheme.ranks,
            "parameters": audit.scheme.parameters,
            "accumulation": audit.scheme.accumulation,
            "library": audit.library,
        },
        "rows": [_row_json(row) for row in audit.rows],
        "comparisons": [
            {
                "phase": c.phase,
                "op": c.op,
                "sent_bytes": float(c.sent_bytes),
                "minimum_bytes": float(c.minimum_bytes),
                "ratio": c.ratio,
            }
            for c in audit.comparisons
        ],
        "findings": [{"code": f.code, "text": f.text, "repair": f.repair} for f in audit.findings],
        "recorded": audit.recorded,
        "lost": audit.lost,
        "untimed": audit.untimed,
        **unrecorded_json(audit.unrecorded),
    }


def _buffers_text(names: Sequence[str]) -> str:
    hidden = len(names) - _BUFFERS_SHOWN
    return ", ".join(names[:_BUFFERS_SHOWN]) + (f" and {hidden} more" if hidden > 0 else "")


def _headline(audit: Audit) -> str:
    if audit.scheme is None:
        return f"collectives of rank {audit.rank}: {audit.steps} steps, scheme not recognised"
    scheme = audit.scheme
    micro = "1 micro-batch" if scheme.accumulation == 1 else f"{scheme.accumulation} micro-batches"
    return (
        f"collectives of rank {audit.rank}: {audit.steps} steps of {scheme.name} "
        f"({audit.library}), N = {scheme.ranks} ranks, P = {scheme.parameters} parameters, {micro} "
        "a step"
    )


def _summary(audit: Audit) -> str:
    worst = audit.worst_ratio
    ratio = "none" if worst is None else f"{worst:.2f}"
    return (
        f"SUMMARY collectives: {sum(row.calls for row in audit.rows)} calls in {audit.steps} steps "
        f"audited, worst ratio {ratio}, {len(audit.findings)} findings"
    )


def _exact(count: Fraction) -> str:
    whole = float(count)
    exact = f"{int(whole)}" if count.denominator == 1 else f"{whole:.2f}"
    return f"{exact} bytes"


def _cells(row: Row, steps: int, total: Fraction) -> tuple[str, ...]:
    op = row.op if row.dtype == "none" else f"{row.op} {row.dtype}"
    rates = (row.algorithm_bandwidth, row.bus_bandwidth)
    return (
        row.phase, op, f"{row.group}[{row.group_size}]", f"{row.calls / steps:g}",
        size_text(float(row.wire_bytes) / steps), f"{float(row.wire_bytes / total):.1%}",
        size_text(row.median_bytes),
        *("-" if rate is None else f"{size_text(rate)}/s" for rate in rates),
    )  # fmt: skip


def _aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < 3 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _row_json(row: Row) -> dict[str, object]:
    return {
        "phase": row.phase,
        "op": row.op,
        "dtype": row.dtype,
        "group": row.group,
        "group_size": row.group_size,
        "calls": row.calls,
        "payload_bytes": row.payload_bytes,
        "wire_bytes": float(row.wire_bytes),
        "median_bytes": row.median_bytes,
        "elements": row.elements,
        "algorithm_bandwidth": row.algorithm_bandwidth,
        "bus_bandwidth": row.bus_bandwidth,
        "place": row.place,
        "buffers": list(row.buffers),
    }
