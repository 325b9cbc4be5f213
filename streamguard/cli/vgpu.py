"""`streamguard vgpu info`: what the virtual GPU of this installation is."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from streamguard.config import parse

if TYPE_CHECKING:
    from streamguard.cli.main import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add `vgpu` to the command line."""
    parser = subparsers.add_parser(
        "vgpu",
        help="describe the virtual GPU",
        description="Describe the virtual GPU of this installation.",
    )
    commands = parser.add_subparsers(dest="vgpu_command", required=True, metavar="COMMAND")
    info = commands.add_parser(
        "info",
        help="load it and say what it is",
        description=(
            "Load the virtual GPU as the STREAMGUARD_VGPU variables ask (one device without them) "
            "and print its devices, schedule and libraries. Status 1 if it is not built."
        ),
    )
    info.set_defaults(run=run_info)


def run_info(_: argparse.Namespace) -> int:
    """Load the virtual GPU into this process and describe it."""
    from streamguard.vgpu.description import describe
    from streamguard.vgpu.load import library_dir, load

    config = parse(os.environ)
    load(config.vgpu_devices or 1)
    description = describe()
    print(f"devices: {description.devices}, {config.vgpu_memory_mb} MiB each")
    print(f"schedule: {description.schedule}")
    print(f"values: {'computed' if config.vgpu_values else 'off'}")
    print(f"libraries: {', '.join(sorted(path.name for path in library_dir().iterdir()))}")
    return 0
