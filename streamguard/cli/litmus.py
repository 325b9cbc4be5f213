"""`streamguard litmus`: verdicts on small stream programs, compared with their files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard.errors import UsageError
from streamguard.exit_status import CLEAN, RACES, USAGE
from streamguard.litmus.case import RacePair, Variant, read_cases
from streamguard.litmus.errors import LitmusError

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers
    from streamguard.litmus.verdict import Outcome

_STDIN = "standard input"


_MOST_BYTES = 1 << 26


def add_parser(subparsers: Subparsers) -> None:
    """Add `litmus` to the command line."""
    parser = subparsers.add_parser(
        "litmus",
        help="find the races of small stream programs",
        description="Run litmus cases (YAML, or one JSON object a line) and compare verdict and "
        "races with what they expect. Status 0: all agree; 66: not all; 2: a file cannot be read.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="a YAML case or JSON lines")
    parser.add_argument("--stdin", action="store_true", help="read cases from standard input too")
    parser.add_argument("--json", action="store_true", help="one JSON object for each variant")
    parser.add_argument("--explain", action="store_true", help="print the clocks of each variant")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run every case and return the exit status."""
    if not arguments.files and not arguments.stdin:
        raise UsageError("no FILE given; name one or use --stdin")
    try:
        outcomes = _outcomes(arguments)
    except LitmusError as error:
        print(f"streamguard litmus: {error}", file=sys.stderr)
        return USAGE
    for outcome in outcomes:
        print(_as_json(outcome) if arguments.json else _as_text(outcome))
        if arguments.explain:
            # Beside JSON the clocks must not disturb a reader of the lines.
            stream = sys.stderr if arguments.json else sys.stdout
            for line in outcome.explanation:
                print(f"    {line}", file=stream)
    failed = sum(not outcome.is_as_expected for outcome in outcomes)
    if not arguments.json:
        print(f"SUMMARY: {len(outcomes)} programs, {failed} not as expected")
    return RACES if failed else CLEAN


def _outcomes(arguments: argparse.Namespace) -> list[Outcome]:
    """Read everything before anything runs: a file that cannot be read gives no half result."""
    from streamguard.litmus.verdict import run_variant  # loads the extension

    variants: list[Variant] = []
    for name in arguments.files:
        variants += read_cases(_text_of(name), name)
    if arguments.stdin:
        data = _bounded(sys.stdin.buffer.read(_MOST_BYTES + 1), _STDIN)
        variants += read_cases(_decoded(data, _STDIN), _STDIN)
    return [run_variant(variant) for variant in variants]


def _text_of(name: str) -> str:
    path = Path(name)
    try:
        if not (path.is_file() or path.is_dir()) and path.exists():
            # A pipe may never end, and a device gives no case.
            raise LitmusError(name, 1, "no regular file; --stdin reads a pipe")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise LitmusError(name, 1, f"cannot be read: {error.strerror}") from error
    return _decoded(_bounded(data, name), name)


def _bounded(data: bytes, source: str) -> bytes:
    if len(data) > _MOST_BYTES:
        raise LitmusError(source, 1, f"more than {_MOST_BYTES >> 20} MiB: no litmus file")
    return data


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LitmusError(source, line, f"not UTF-8 at byte {error.start}") from error


def _as_json(outcome: Outcome) -> str:
    return json.dumps(
        {
            "id": outcome.variant.case_id,
            "variant": outcome.variant.name,
            "verdict": outcome.verdict,
            "races": [pair._asdict() for pair in outcome.races],
            "ordered_by_nccl": [pair._asdict() for pair in outcome.ordered_by_nccl],
        }
    )


def _as_text(outcome: Outcome) -> str:
    variant = outcome.variant
    agreement = "as expected" if outcome.is_as_expected else "NOT as expected"
    lines = [f"{variant.case_id} {variant.name}: {outcome.verdict}, {agreement}"]
    lines += [f"  {_pair(pair)}" for pair in outcome.races]
    lines += [f"  ordered by NCCL: {_pair(pair)}" for pair in outcome.ordered_by_nccl]
    if not outcome.is_as_expected:
        expected = variant.expectation.verdict or "clean"
        lines += [f"  expected verdict: {expected}"]
        lines += [f"  expected but not found: {_pair(pair)}" for pair in outcome.missing]
        lines += [f"  found but not expected: {_pair(pair)}" for pair in outcome.unexpected]
    return "\n".join(lines)


def _pair(pair: RacePair) -> str:
    return f"{pair.kind} ({pair.domain}): {pair.first!r} -> {pair.second!r}"
