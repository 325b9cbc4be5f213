"""`streamguard run`: watch a command, whatever launches it, and print one report for the job."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard import config, exit_status
from streamguard.cli.audit import print_audit
from streamguard.cli.child import run_command
from streamguard.cli.explore import explore
from streamguard.cli.launchers import forwarding
from streamguard.errors import ConfigurationError, MissingBuildError, UsageError
from streamguard.hooks.interposer import preloading
from streamguard.identity import new_run_id
from streamguard.output_directory import problem_of
from streamguard.report.job_json import job_json_lines
from streamguard.report.merge import merge_ranks, read_directory
from streamguard.report.model import Report
from streamguard.report.output import write_text
from streamguard.report.text import render
from streamguard.vgpu import load

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers

REPORT_FILE = "report.txt"

# What each option sets; the variables are what reaches the ranks, and `config` checks them.
_OPTIONS = {
    "vgpu": "STREAMGUARD_VGPU",
    "schedule": "STREAMGUARD_VGPU_SCHEDULE",
    "ranks": "STREAMGUARD_RANKS",
    "stacks": "STREAMGUARD_STACKS",
    "reducer": "STREAMGUARD_REDUCER",
    "collectives": "STREAMGUARD_COLLECTIVES",
    "hang_after": "STREAMGUARD_HANG_AFTER",
    "on_hang": "STREAMGUARD_ON_HANG",
    "enforce_only": "STREAMGUARD_ENFORCE_ONLY",
    "every": "STREAMGUARD_EVERY",
    "streams": "STREAMGUARD_STREAMS",
    "tensors": "STREAMGUARD_TENSORS",
    "modules": "STREAMGUARD_MODULES",
}


def add_parser(subparsers: Subparsers) -> None:
    """Add `run` to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="watch a command and report its races",
        description=(
            "Watch a command (python, torchrun, deepspeed, accelerate, mpirun, srun, ...) and "
            "print one report for all its ranks. Exit status: the command's own if it is not 0, "
            "else 66 for races, 67 if nothing was checked, 0 if clean; 2 for wrong usage."
        ),
    )
    add = parser.add_argument
    add("--vgpu", metavar="N", help="run on N virtual devices; no GPU is needed")
    add(
        "--schedule",
        metavar="S",
        help="order the virtual GPU takes: eager, lazy, extreme:I,J, random:SEED, pct:SEED[,DEPTH]",
    )
    add(
        "--explore",
        action="store_true",
        help="run the command under many schedules of the virtual GPU and compare the results that "
        "it names with streamguard.vgpu.result; 66 if they differ",
    )
    add(
        "--schedules",
        metavar="LIST",
        help="schedules that --explore runs, separated by spaces: tokens, extremes, random:1-3, "
        "pct:1-3",
    )
    add("--output", metavar="DIR", help="directory of the result files (./streamguard-<run>)")
    add("--trace", metavar="DIR", help="write every op there, for `streamguard replay`")
    add("--ranks", metavar="R,R", help="watch only these ranks")
    add(
        "--accesses",
        metavar="PATTERN",
        action="append",
        default=[],
        help="list the accesses to regions of this name, such as 'ipg_buffer[*]'; may be repeated",
    )
    add("--json", action="store_true", help="print the report as JSON lines to standard output")
    add("--error-exitcode", metavar="N", type=_status, help="exit status for races instead of 66")
    add("--stacks", metavar="off|leaf|full", help="Python frames kept with each op (full)")
    add(
        "--reducer",
        metavar="NAME",
        help="repair: add the order that DeepSpeed's ZeRO-1/2 reducer lacks; own: replace it",
    )
    add(
        "--collectives",
        metavar="strict|async|off",
        help="compare what ranks call: before each collective, behind the run (async), or not",
    )
    add("--hang-after", metavar="S", help="report ranks that wait for S seconds (60)")
    add("--on-hang", metavar="report|abort|raise", help="what follows that report (report)")
    add(
        "--no-preload",
        action="store_true",
        help="do not preload the library that counts launches outside of torch's operators",
    )
    add("--every", metavar="N", help="look at every N-th training step only; order is always kept")
    add("--streams", metavar="STREAM,STREAM", help="look at ops on streams of these names only")
    add(
        "--tensors",
        metavar="NAME,NAME",
        help="report only races on regions, parameters and gradients of these names",
    )
    add("--modules", metavar="NAME,NAME", help="report only races in modules of these names")
    add("--enforce", action="store_true", help="put the missing waits in, and report them")
    add(
        "--confirm",
        action="store_true",
        help="try whether races change bytes: delay their first op when the pair comes again",
    )
    add(
        "--enforce-only",
        metavar="STREAM,STREAM",
        help="with --enforce: only waits of or for streams of these names",
    )
    add("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command to watch")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command, print the report, and return the exit status."""
    command = list(arguments.command)
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise UsageError("no command to watch; write it after --, such as: -- python train.py")
    environ = _environment(arguments, os.environ)
    settings = _checked(environ)
    if arguments.enforce_only is not None and not arguments.enforce:
        raise UsageError("--enforce-only limits --enforce; it needs it")
    if arguments.vgpu is not None:
        _check_virtual_gpu(arguments.vgpu, settings)
    if arguments.schedule is not None and settings.vgpu_devices is None:
        raise UsageError("--schedule orders the virtual GPU; it needs --vgpu N")
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        raise UsageError(f"{command[0]}: no such command")
    if arguments.explore and settings.vgpu_devices is None:
        raise UsageError("--explore needs the virtual GPU: --vgpu N")
    if arguments.schedules is not None and not arguments.explore:
        raise UsageError("--schedules lists what --explore runs; one order: --schedule TOKEN")
    _check_directory("--output", Path(environ["STREAMGUARD_OUTPUT"]))
    if settings.trace is not None:
        _check_directory("--trace", settings.trace)
    if arguments.explore:
        return explore(arguments, command, environ)
    if not arguments.no_preload:
        environ = preloading(environ)
    with forwarding(command, environ) as launch:
        status = run_command(launch.command, launch.environ)
    if settings.collectives != "off":
        _compare_left_over(Path(environ["STREAMGUARD_OUTPUT"]), environ["STREAMGUARD_RUN"])
    report = _collect(settings)
    # Where the reader of the report has gone the status still tells what was found.
    with contextlib.suppress(OSError, ValueError):
        _print(report, settings, as_json=arguments.json)
        if settings.audit:
            run_id = environ["STREAMGUARD_RUN"]
            print_audit(settings.output or Path(), run_id, as_json=arguments.json)
    if status != 0:
        return status
    verdict = exit_status.of_report(report)
    if settings.collectives != "off" and _has_desync(
        Path(environ["STREAMGUARD_OUTPUT"]), environ["STREAMGUARD_RUN"]
    ):
        verdict = exit_status.RACES
    if verdict == exit_status.RACES and arguments.error_exitcode is not None:
        return int(arguments.error_exitcode)
    return verdict


def _has_desync(directory: Path, run_id: str) -> bool:
    """Whether ranks differ or waited in vain; they, or we in their place, printed that.

    A rank that was merely slow (SG315) is no fault of the program.
    """
    from streamguard.collectives.postmortem import entries_of

    entries = [e for name in ("desync", "plan") for e in entries_of(directory, run_id, name)]
    return any(entry.get("code") != "SG315" for entry in entries)


def _compare_left_over(directory: Path, run_id: str) -> None:
    if next(directory.glob("collectives-*.ring"), None) is None:
        return
    from streamguard.collectives.postmortem import report_left_over

    report_left_over(directory, run_id)


def _status(text: str) -> int:
    value = int(text) if text.isascii() and text.isdecimal() else -1
    if not 0 <= value <= 255:
        raise argparse.ArgumentTypeError(f"{text!r} is no exit status, 0 to 255")
    return value


def _mode(arguments: argparse.Namespace) -> str:
    if arguments.enforce and arguments.confirm:
        raise UsageError("--enforce leaves no race for --confirm to try; give one of them")
    if arguments.enforce:
        return "enforce"
    return "confirm" if arguments.confirm else "1"


def _environment(arguments: argparse.Namespace, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command."""
    environ = dict(inherited)
    environ.pop("STREAMGUARD_EXIT", None)
    run_id = new_run_id()
    environ["STREAMGUARD"] = _mode(arguments)
    environ["STREAMGUARD_RUN"] = run_id
    environ["STREAMGUARD_REPORTS_ELSEWHERE"] = "1"
    for option, variable in _OPTIONS.items():
        value = getattr(arguments, option)
        if value is not None:
            environ[variable] = value
    if not arguments.explore and not environ.get("STREAMGUARD_COLLECTIVES"):
        environ["STREAMGUARD_COLLECTIVES"] = "async"
    if arguments.accesses:
        environ["STREAMGUARD_ACCESSES"] = ",".join(arguments.accesses)
    output = arguments.output or environ.get("STREAMGUARD_OUTPUT") or f"streamguard-{run_id}"
    environ["STREAMGUARD_OUTPUT"] = str(Path(output).absolute())
    trace = arguments.trace or environ.get("STREAMGUARD_TRACE")
    if trace:
        environ["STREAMGUARD_TRACE"] = str(Path(trace).absolute())
    return environ


def _check_virtual_gpu(text: str, settings: config.Config) -> None:
    if settings.vgpu_devices is None:
        raise UsageError(f"--vgpu {text!r} is not understood; expected the number of devices")
    try:
        load.check_built()
    except MissingBuildError as error:
        raise UsageError(
            f"--vgpu {text}: {error}. It needs torch's CUDA build, and CUDA headers at build time"
        ) from error


def _check_directory(option: str, directory: Path) -> None:
    problem = problem_of(directory)
    if problem is not None:
        raise UsageError(
            f"{option} {directory}: {problem}; name a directory that the ranks can write to"
        )


def _checked(environ: Mapping[str, str]) -> config.Config:
    try:
        return config.parse(environ)
    except ConfigurationError as error:
        for option, variable in _OPTIONS.items():
            if variable == error.variable:
                raise UsageError(
                    f"--{option.replace('_', '-')} {error.value!r} is not understood; "
                    f"expected {error.expected}"
                ) from error
        raise


def _collect(settings: config.Config) -> Report:
    assert settings.output is not None
    result = read_directory(settings.output)
    # A directory that is used again holds the files of earlier runs as well.
    ranks = [rank for rank in result.ranks if rank.start.run == settings.run]
    problem = None if ranks else problem_of(settings.output)
    notes = [*result.notes, *([f"no results in {settings.output}: {problem}"] if problem else [])]
    absent = sorted((settings.ranks or frozenset()) - {rank.start.rank for rank in ranks})
    notes += [f"rank {rank} was to be watched and never reported in" for rank in absent]
    return merge_ranks(ranks, notes=notes, access_patterns=settings.accesses)


def _print(report: Report, settings: config.Config, *, as_json: bool) -> None:
    assert settings.output is not None
    if as_json:
        sys.stdout.writelines(job_json_lines(report))
        sys.stdout.flush()
        return
    text = render(report)
    if settings.output.is_dir():
        try:
            (settings.output / REPORT_FILE).write_text(text, encoding="utf-8")
        except OSError as error:
            print(f"streamguard: cannot keep {REPORT_FILE}: {error}", file=sys.stderr)
    write_text(text, sys.stderr)
