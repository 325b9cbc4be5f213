"""The ring files of a job that is no longer there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from streamguard.collectives.desync import differences, membership_of
from streamguard.collectives.notices import Notices
from streamguard.collectives.record import RankLog, read_log
from streamguard.collectives.views import View, view_of
from streamguard.errors import CallRecordError

# A larger job is compared while it runs, and on request.
MAX_RINGS = 64


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
    return _newest_views([read_log(path) for path in rings])


def report_left_over(directory: Path, run: str) -> None:
    """Compare what the ranks of a run called and report what they have not reported themselves.

    Ranks may end before they have compared their last calls; their files remain. Who waited for
    whom when they ended is not judged here.
    """
    if sum(1 for _ in directory.glob("collectives-*.ring")) > MAX_RINGS:
        return
    notices = Notices(directory, run, None)
    logs = []
    for path in rings_of([directory]):
        try:
            logs.append(read_log(path))
        except CallRecordError as error:
            # The program has run; a file that it left half-written must not hide its own status.
            notices.say(f"not compared: {error}")
    logs = [log for log in logs if log.run == run]
    last = max((log.restart for log in logs), default="")
    views = _newest_views([log for log in logs if log.restart == last])
    found = membership_of(views)
    reported = {
        (e.get("kind"), e.get("group"), e.get("position")) for e in entries_of(directory, run)
    }
    for verdict in differences(views) if found is None else [found]:
        if (verdict.kind, verdict.key, verdict.position) not in reported:
            notices.report(verdict, views)


def entries_of(directory: Path, run: str, name: str = "desync") -> list[Mapping[str, object]]:
    """What the ranks of a run have reported so far."""
    path = directory / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    entries = []
    for line in lines:
        # A rank that is killed may leave half a line.
        with contextlib.suppress(ValueError):
            entries.append(json.loads(line))
    # A directory that is used again holds the reports of earlier runs as well.
    return [e for e in entries if isinstance(e, dict) and e.get("run") == run]


def _newest_views(logs: Iterable[RankLog]) -> dict[int, View]:
    newest: dict[int, RankLog] = {}
    for log in logs:
        known = newest.get(log.rank)
        if known is None or known.started <= log.started:
            newest[log.rank] = log
    views = {rank: view_of(log) for rank, log in sorted(newest.items())}
    return views if any(view.newest or view.messages for view in views.values()) else {}
