"""`streamguard vgpu`: what the virtual GPU of this installation is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from streamguard.errors import MissingBuildError

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add `vgpu` to the command line."""
    parser = subparsers.add_parser(
        "vgpu",
        help="describe the virtual GPU",
        description="Describe the virtual GPU: its libraries and whether they are built.",
    )
    commands = parser.add_subparsers(dest="vgpu_command", required=True, metavar="COMMAND")
    info = commands.add_parser("info", help="describe the virtual GPU of this installation")
    info.set_defaults(run=run_info)


def run_info(_: argparse.Namespace) -> int:
    """Print the description."""
    try:
        from streamguard.vgpu.describe import describe
    except ImportError as error:
        raise MissingBuildError("streamguard.vgpu", str(error), "make build") from error
    print(describe())
    return 0
