"""`streamguard replay`: analyse op traces again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard import exit_status
from streamguard.cli.merge import print_report
from streamguard.errors import UsageError
from streamguard.report.merge import DirectoryResult, merge_ranks

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add `replay` to the command line."""
    parser = subparsers.add_parser(
        "replay",
        help="analyse op traces again",
        description=(
            "Analyse op traces (STREAMGUARD_TRACE=DIR, or run --trace DIR) again in a fresh "
            "engine and print one report on all their ranks. Exit status: 66 for races, 67 if "
            "nothing was checked, 0 if clean; 2 for a file that is damaged or no trace."
        ),
    )
    parser.add_argument("paths", nargs="+", metavar="DIR", help="directory of traces, or a trace")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument(
        "--history",
        choices=("bounded", "full"),
        default="bounded",
        help="bounded: the findings that the program had; full: every pair that races",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report and return its exit status."""
    try:
        from streamguard.trace.replay import replay_path
    except ModuleNotFoundError as error:
        raise UsageError(f"{error}; install streamguard[trace]") from error
    from streamguard import _core

    is_full = arguments.history == "full"
    history = _core.History.FULL if is_full else _core.History.BOUNDED
    joined = DirectoryResult()
    for name in arguments.paths:
        result = replay_path(Path(name), history=history)
        joined.ranks += result.ranks
        joined.notes += result.notes
    runs = sorted({rank.start.run for rank in joined.ranks})
    if len(runs) > 1:
        joined.notes.append(f"results of {len(runs)} runs are joined: {', '.join(runs)}")
    report = merge_ranks(joined.ranks, notes=joined.notes)
    print_report(report, as_json=arguments.json)
    return exit_status.of_report(report)
