"""`streamguard merge`: one report out of the result directories of several nodes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard import exit_status
from streamguard.errors import UsageError
from streamguard.report.job_json import job_json_lines
from streamguard.report.merge import DirectoryResult, merge_ranks, read_directory
from streamguard.report.model import Report
from streamguard.report.output import write_text
from streamguard.report.text import render

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add `merge` to the command line."""
    parser = subparsers.add_parser(
        "merge",
        help="join result directories of several nodes into one report",
        description=(
            "Join the result files of one or more directories into one report. Exit status: 66 for "
            "races, 67 if nothing was checked, 0 if clean; 2 for wrong usage."
        ),
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="a result directory")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the joined report and return its exit status."""
    joined = DirectoryResult()
    # A directory that is named twice, or by two paths, counts once.
    distinct = {Path(name).resolve(): Path(name) for name in reversed(arguments.directories)}
    for directory in reversed(distinct.values()):
        result = read_result_directory(directory)
        joined.ranks += result.ranks
        joined.notes += result.notes
    runs = sorted({rank.start.run for rank in joined.ranks})
    if len(runs) > 1:
        joined.notes.append(f"results of {len(runs)} runs are joined: {', '.join(runs)}")
    report = merge_ranks(joined.ranks, notes=joined.notes)
    print_report(report, as_json=arguments.json)
    return exit_status.of_report(report)


def read_result_directory(directory: Path) -> DirectoryResult:
    """Read a directory that the user named.

    Raises:
        UsageError: it is no directory or cannot be read.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory")
    try:
        return read_directory(directory)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error


def print_report(report: Report, *, as_json: bool) -> None:
    """Print a report to standard output."""
    if as_json:
        sys.stdout.writelines(job_json_lines(report))
        sys.stdout.flush()
    else:
        write_text(render(report), sys.stdout)
