"""`streamguard show`: print the report of one run again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard.cli.merge import print_report, read_result_directory
from streamguard.errors import UsageError
from streamguard.report.jsonl import read_rank_file
from streamguard.report.merge import DirectoryResult, merge_ranks

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add `show` to the command line."""
    parser = subparsers.add_parser(
        "show",
        help="print the report of a run again",
        description="Print the report of a result directory or of one rank's file.",
    )
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="result directory or file; by default the newest ./streamguard-*",
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; the status is 0 whatever was found."""
    path = _newest() if arguments.path is None else Path(arguments.path)
    result = _read_file(path) if path.is_file() else read_result_directory(path)
    print_report(merge_ranks(result.ranks, notes=result.notes), as_json=arguments.json)
    return 0


def _newest() -> Path:
    directories = [path for path in Path.cwd().glob("streamguard-*") if path.is_dir()]
    if not directories:
        raise UsageError("there is no ./streamguard-* here; name a result directory")
    return max(directories, key=lambda path: path.stat().st_mtime)


def _read_file(path: Path) -> DirectoryResult:
    try:
        read = read_rank_file(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    ranks = [] if read.rank is None else [read.rank]
    return DirectoryResult(ranks, [f"damaged record left out: {error}" for error in read.damaged])
