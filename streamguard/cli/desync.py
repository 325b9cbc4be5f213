"""`streamguard desync`: who waits where, from what a killed job left behind."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard.errors import UsageError
from streamguard.exit_status import CHECKED_NOTHING, CLEAN, RACES

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add `desync` to the command line."""
    parser = subparsers.add_parser(
        "desync",
        help="name the ranks that differ or wait in vain, from the files of a job",
        description=(
            "Read what ranks left behind: streamguard's ring files (a directory, or *.ring) or "
            "PyTorch Flight Recorder dumps (a directory, or the files of all ranks), and name the "
            "ranks in the minority and the calls they wait in. Exit status: 66 if something "
            "differs or hangs, 67 if the files hold no collective, 0 otherwise, 2 for wrong usage."
        ),
    )
    parser.add_argument("paths", nargs="+", metavar="FILE", help="files or directories")
    parser.add_argument("--json", action="store_true", help="print JSON to standard output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, judge, print, and return the exit status."""
    from streamguard.collectives import flight_recorder, postmortem
    from streamguard.collectives.desync import judge
    from streamguard.collectives.verdict_text import render

    paths = [Path(path) for path in arguments.paths]
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or directory")
    rings = postmortem.rings_of(paths)
    if rings:
        views, notes = postmortem.views_of(rings), []
        verdict = judge(views)
    else:
        dumps = flight_recorder.read_dumps(flight_recorder.dumps_of(paths))
        views = flight_recorder.views_of(dumps)
        verdict = flight_recorder.judge_dumps(dumps, views)
        notes = flight_recorder.notes_of(dumps, verdict)
    if not views:
        print("streamguard desync: checked nothing: no collective in these files", file=sys.stderr)
        return CHECKED_NOTHING
    text = render(verdict, views) + "".join(f"  note: {note}\n" for note in notes)
    if arguments.json:
        print(
            json.dumps(
                {"type": "desync", "code": verdict.code, "kind": verdict.kind,
                 "culprits": list(verdict.culprits), "group": verdict.key,
                 "position": verdict.position, "text": text, "notes": notes}
            )
        )  # fmt: skip
    else:
        sys.stdout.write(text)
        sys.stdout.write(
            f"SUMMARY desync: {len(views)} ranks, verdict {verdict.kind}, "
            f"{len(verdict.culprits)} ranks named\n"
        )
    return CLEAN if verdict.kind == "agreed" else RACES
