"""`streamguard explain`: what a finding code means and how to repair it."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from streamguard.errors import UsageError
from streamguard.report.codes import CODES, Code

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers

_WIDTH = 80


def add_parser(subparsers: Subparsers) -> None:
    """Add `explain` to the command line."""
    parser = subparsers.add_parser(
        "explain",
        help="say what a code such as SG002 means",
        description="Say what a code means, what it does to a program, and how to repair it.",
    )
    parser.add_argument("code", metavar="CODE", help=", ".join(CODES))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    code = CODES.get(arguments.code.upper())
    if code is None:
        raise UsageError(f"{arguments.code!r} is no finding code; there are {', '.join(CODES)}")
    print(_explanation(code))
    return 0


def _explanation(code: Code) -> str:
    parts = [f"{code.code}: {code.title}"]
    for text in (code.seen, code.effect, f"Repair: {code.repair}"):
        parts.append(textwrap.fill(text, _WIDTH, break_on_hyphens=False))
    return "\n\n".join(parts)
