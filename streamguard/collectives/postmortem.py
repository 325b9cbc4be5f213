"""The ring files of a job that is no longer there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streamguard.collectives.record import read_log
from streamguard.collectives.views import View, view_of


def rings_of(paths: Iterable[Path]) -> list[Path]:
    """The ring files among files and directories."""
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("collectives-*.ring")) if path.is_dir() else (
            [path] if path.suffix == ".ring" else []
        )  # fmt: skip
    return found


def views_of(rings: Iterable[Path]) -> dict[int, View]:
    """Every rank as its files show it; of several processes of one rank the last that started."""
    newest: dict[int, tuple[float, View]] = {}
    for path in rings:
        log = read_log(path)
        begin = float(log.records["begin_ns"][0]) if len(log.records) else 0.0
        known = newest.get(log.rank)
        if known is None or known[0] <= begin:
            newest[log.rank] = begin, view_of(log)
    views = {rank: view for rank, (_, view) in sorted(newest.items())}
    return views if any(view.newest or view.messages for view in views.values()) else {}
