"""`streamguard audit`: what a job sent, against what its scheme must send."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard import config
from streamguard.cli.child import run_command
from streamguard.cli.launchers import forwarding
from streamguard.errors import UsageError
from streamguard.exit_status import BUDGET, CHECKED_NOTHING
from streamguard.hooks.interposer import preloading
from streamguard.identity import new_run_id
from streamguard.output_directory import problem_of

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers
    from streamguard.collectives.audit import Audit
    from streamguard.collectives.record import RankLog


def add_parser(subparsers: Subparsers) -> None:
    """Add `audit` to the command line."""
    parser = subparsers.add_parser(
        "audit",
        help="compare a command's collectives with what its scheme must send",
        description=(
            "Run a command and print, by phase and op, what one rank sends in a step, beside the "
            "minimum of the scheme (DDP, ZeRO, FSDP). With --from DIR audit a recorded run "
            "instead. Exit status: the command's own if it is not 0, else 66 above --max-ratio, "
            "67 if no collective was recorded, 0 otherwise; 2 for wrong usage."
        ),
    )
    add = parser.add_argument
    add("--vgpu", metavar="N", help="run on N virtual devices; no GPU is needed")
    add("--output", metavar="DIR", help="directory of the result files (./streamguard-<run>)")
    add("--from", dest="source", metavar="DIR", help="audit the files of an earlier run")
    add("--rank", type=_rank, default=0, metavar="R", help="whose traffic is shown (0)")
    add("--max-ratio", type=_ratio, metavar="X", help="exit with 66 above X times the minimum")
    add("--no-timing", action="store_true", help="do not measure how long the calls take")
    add("--json", action="store_true", help="print JSON to standard output instead of text")
    add("--chart", metavar="FILE.png", help="draw a bar chart (needs matplotlib)")
    add("--scheme", choices=_SCHEMES, help="scheme, where it is not recognised")
    add("--parameters", type=_count, metavar="P", help="trainable parameters, with --scheme")
    add("--accumulation", type=_count, metavar="A", help="micro-batches of a step, if not seen")
    add("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command to audit")
    parser.set_defaults(run=run)


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no rank; expected 0, 1, …")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not understood; expected 1, 2, …")
    return int(text)


def _ratio(text: str) -> float:
    # Nothing is above "nan" or "inf": a budget that can never be exceeded checks nothing.
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) is None or float(text) == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not understood; expected a number above 0, such as 1.2"
        )
    return float(text)


_SCHEMES = ("DDP", "ZeRO-0", "ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP")


def run(arguments: argparse.Namespace) -> int:
    """Run or read, print the audit, and return the exit status."""
    command = list(arguments.command)
    if command[:1] == ["--"]:
        command = command[1:]
    if bool(command) == bool(arguments.source):
        raise UsageError("expected a command after --, or --from DIR, and not both")
    if (arguments.scheme is None) != (arguments.parameters is None):
        raise UsageError("--scheme and --parameters go together")
    if arguments.chart:
        from streamguard.collectives.audit_chart import refuse_impossible

        # Before a command that may take hours.
        refuse_impossible(Path(arguments.chart))
    status, directory, run_id = 0, Path(arguments.source or ""), None
    if command:
        run_id = new_run_id()
        directory = Path(arguments.output or f"streamguard-{run_id}").absolute()
        problem = problem_of(directory)
        if problem is not None:
            raise UsageError(f"--output {directory}: {problem}")
        environ = {**os.environ, "STREAMGUARD_AUDIT": "1", "STREAMGUARD_RUN": run_id}
        environ["STREAMGUARD_OUTPUT"] = str(directory)
        environ["STREAMGUARD_REPORTS_ELSEWHERE"] = "1"
        if arguments.no_timing:
            environ["STREAMGUARD_TIMING"] = "0"
        if arguments.vgpu is not None:
            environ["STREAMGUARD_VGPU"] = arguments.vgpu
        config.parse(environ)
        environ = preloading(environ)
        with forwarding(command, environ) as launch:
            status = run_command(launch.command, launch.environ)
    verdict = _report(arguments, directory, run_id)
    return status or verdict


def print_audit(directory: Path, run_id: str, *, as_json: bool) -> None:
    """Print the audit of rank 0 of a run that has ended, for `streamguard run`."""
    from streamguard.collectives.audit import audit_rank

    log = _read_rank(directory, run_id, 0)
    if log is not None:
        _write(audit_rank(log), as_json=as_json)


def _read_rank(directory: Path, run_id: str | None, rank: int) -> RankLog | None:
    """One rank's record, or None, and a message, where there is nothing to audit."""
    from streamguard.collectives.record import read_logs

    problem = f"rank {rank} recorded no collective"
    if directory.is_dir():
        logs = [log for log in read_logs(directory, run_id) if log.rank == rank]
        # Of a job that was started again, or of several runs, the last one.
        newest = max(logs, key=lambda log: log.started, default=None)
        if newest is not None and len(newest.records):
            return newest
    else:
        problem = f"no rank wrote to {directory}"
    print(f"streamguard audit: checked nothing: {problem}", file=sys.stderr)
    return None


def _write(audit: Audit, *, as_json: bool) -> None:
    from streamguard.collectives.audit_text import render, to_json

    text = json.dumps(to_json(audit)) + "\n" if as_json else render(audit)
    with contextlib.suppress(OSError, ValueError):
        (sys.stdout if as_json else sys.stderr).write(text)


def _report(arguments: argparse.Namespace, directory: Path, run_id: str | None) -> int:
    from streamguard.collectives.audit import audit_rank, scheme_of
    from streamguard.collectives.theory import Scheme

    log = _read_rank(directory, run_id, arguments.rank)
    if log is None:
        return CHECKED_NOTHING
    scheme, _ = scheme_of(log.notes_of("scheme"))
    if arguments.scheme is not None:
        size = max(len(group.ranks) for group in log.groups.values())
        scheme = Scheme(arguments.scheme, size, arguments.parameters)
    if arguments.accumulation is not None:
        if scheme is None:
            raise UsageError("--accumulation: no scheme was recognised; give --scheme as well")
        scheme = replace(scheme, accumulation=arguments.accumulation)
    audit = audit_rank(log, scheme)
    _write(audit, as_json=arguments.json)
    if arguments.chart:
        from streamguard.collectives.audit_chart import write_chart

        write_chart(audit, Path(arguments.chart))
    limit = arguments.max_ratio
    if limit is None:
        return 0
    if audit.worst_ratio is None:
        print("streamguard audit: --max-ratio: nothing could be compared", file=sys.stderr)
        return CHECKED_NOTHING
    if audit.worst_ratio > limit:
        print(
            f"streamguard audit: {audit.worst_ratio:.2f} × minimum is above --max-ratio {limit:g}",
            file=sys.stderr,
        )
        return BUDGET
    return 0
