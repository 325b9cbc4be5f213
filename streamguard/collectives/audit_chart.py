"""An audit as a bar chart. Needs matplotlib: `pip install streamguard[chart]`."""

from __future__ import annotations

import os
from pathlib import Path

from streamguard.collectives.audit import Audit
from streamguard.collectives.audit_text import size_text
from streamguard.errors import UsageError


def refuse_impossible(path: Path) -> None:
    """Find out whether a chart can be drawn into a file, without touching it.

    Raises:
        UsageError: matplotlib is not installed, draws no such files, or there is no such directory.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise UsageError(
            f"{path}: a chart needs matplotlib: pip install streamguard[chart]"
        ) from error
    if path.suffix.lower().removeprefix(".") not in FigureCanvasAgg.filetypes:
        raise UsageError(f"--chart {path}: no kind of picture that is known; expected FILE.png")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"--chart {path}: cannot be written; expected FILE.png in a directory")


def write_chart(audit: Audit, path: Path) -> None:
    """Draw what one rank sends a step, by phase and op, with the minimum beside it.

    Raises:
        UsageError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    steps = max(audit.steps, 1)
    rows = [row for row in audit.rows if row.wire_bytes > 0 and row.phase != "setup"]
    labels = [f"{row.phase}: {row.op}" for row in rows]
    sent = [float(row.wire_bytes) / steps for row in rows]
    minima = {c.phase: float(c.minimum_bytes) for c in audit.comparisons}
    ratios = {c.phase: c.ratio for c in audit.comparisons}
    figure = Figure(figsize=(9, 1.2 + 0.55 * max(len(rows), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.barh(range(len(rows)), sent, color="#4477aa", height=0.6, label="sent")
    marked = False
    named: set[str] = set()
    for i, row in enumerate(rows):
        text = f" {size_text(sent[i])}"
        if row.phase in minima and row.phase not in named:
            named.add(row.phase)
            text += f", {ratios[row.phase]:.2f} × minimum"
            axes.plot(
                [minima[row.phase]] * 2, [i - 0.4, i + 0.4], color="#cc3311", linewidth=2.5,
                label=None if marked else "theoretical minimum",
            )  # fmt: skip
            marked = True
        axes.text(max(sent[i], minima.get(row.phase, 0)), i, text, va="center", fontsize=9)
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.5 * max([*sent, *minima.values(), 1.0]))
    axes.xaxis.set_major_formatter(lambda value, _: size_text(value))
    axes.set_xlabel("sent by one rank in one step")
    scheme = audit.scheme
    title = "collectives" if scheme is None else (
        f"{scheme.name} ({audit.library}), {scheme.ranks} ranks, {scheme.parameters:,} parameters"
    )  # fmt: skip
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if rows:
        axes.legend(loc="lower right", frameon=False)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise UsageError(f"--chart {path}: {error.strerror}") from error
