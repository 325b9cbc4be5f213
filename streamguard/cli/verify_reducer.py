"""`streamguard verify-reducer`: prove a gradient reducer on the virtual GPU."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard import __version__
from streamguard.errors import MissingBuildError, UsageError
from streamguard.exit_status import CLEAN, RACES
from streamguard.report.output import write_text
from streamguard.verify.certificate import Certificate
from streamguard.verify.jobs import Jobs
from streamguard.verify.prove import Verification, parse_ranks
from streamguard.verify.subjects import Subject, subject_of
from streamguard.verify.text import render
from streamguard.vgpu import load

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add `verify-reducer` to the command line."""
    parser = subparsers.add_parser(
        "verify-reducer",
        help="prove a ZeRO gradient reducer on the virtual GPU",
        description=(
            "Train with a reducer on virtual GPUs and print a certificate: races that the detector "
            "finds; bytes of losses, gradients and parameters under every extreme schedule against "
            "the run without overlap; each edge between streams left out in turn, which must be "
            "found and must change bytes; bytes sent and memory used against their bounds. "
            "Gradient bytes are reported but not judged where a reducer does not claim the bound, "
            "as DeepSpeed's, which all-reduces. Exit status: 0 if everything holds, 66 if not, 1 "
            "if the reducer failed, 2 for wrong usage."
        ),
    )
    add = parser.add_argument
    add("--reducer", metavar="NAME", default="own", help="own (default), deepspeed or repair")
    add("--ranks", metavar="N,N", help="numbers of ranks, up to 8 (own: 2,3,4; others: 2)")
    add("--json", metavar="FILE", help="write the certificate as JSON; - is standard output")
    add("--quiet", action="store_true", help="print no progress")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Verify, print the certificate, and return the exit status."""
    subject = subject_of(arguments.reducer)
    numbers = subject.ranks if arguments.ranks is None else parse_ranks(arguments.ranks)
    _check_file(arguments.json)
    try:
        load.check_built()
    except MissingBuildError as error:
        raise UsageError(f"verify-reducer runs on the virtual GPU. {error}") from error
    versions = _versions(subject)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", **subject.environment}
    with Jobs(devices=max(numbers), preload=subject.preload, environment=environment) as jobs:
        progress = _say_nothing if arguments.quiet else _say
        verification = Verification(subject, jobs, progress)
        parts = tuple(verification.certify(ranks) for ranks in numbers)
    certificate = Certificate(subject.name, versions, parts)
    if arguments.json == "-":
        write_text(json.dumps(certificate.to_json(), indent=2) + "\n", sys.stdout)
        return CLEAN if certificate.holds else RACES
    if arguments.json is not None:
        text = json.dumps(certificate.to_json(), indent=2) + "\n"
        Path(arguments.json).write_text(text, encoding="utf-8")
    write_text(render(certificate), sys.stdout)
    return CLEAN if certificate.holds else RACES


def _check_file(name: str | None) -> None:
    """Refuse before minutes of work what could not be written after them."""
    if name is None or name == "-":
        return
    try:
        with Path(name).open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UsageError(f"--json {name}: cannot be written: {error.strerror}") from error


def _versions(subject: Subject) -> dict[str, str]:
    versions = {"streamguard": __version__, "torch": metadata.version("torch")}
    if subject.name != "own":
        try:
            versions["deepspeed"] = metadata.version("deepspeed")
        except metadata.PackageNotFoundError as error:
            raise UsageError(f"--reducer {subject.name}: DeepSpeed is not installed") from error
    return versions


def _say(line: str) -> None:
    print(f"verify-reducer: {line}", file=sys.stderr, flush=True)


def _say_nothing(line: str) -> None:
    """Print no progress."""
