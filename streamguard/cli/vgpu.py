"""`streamguard vgpu`: what the virtual GPU of this installation is and computes."""

from __future__ import annotations

import argparse
import json
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
    ops = commands.add_parser(
        "ops",
        help="list the operators and whether their results are computed",
        description=(
            "Import torch on the virtual GPU and list every operator with a kernel on the device: "
            "computed or not computed, and how. An op without values warns once when it is called."
        ),
    )
    ops.add_argument("--not-computed", action="store_true", help="only those without values")
    ops.add_argument("--json", action="store_true", help="one JSON line for each operator")
    ops.set_defaults(run=run_ops)


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


def run_ops(arguments: argparse.Namespace) -> int:
    """List the operators of this process's torch."""
    from streamguard.vgpu import values
    from streamguard.vgpu.load import load

    load(1)
    values.install()
    operators = values.operators()
    if not operators:
        print("STREAMGUARD_VGPU_VALUES=0: nothing is computed")
        return 1
    for operator in operators:
        if operator.is_computed and arguments.not_computed:
            continue
        if arguments.json:
            line = {
                "op": operator.name,
                "computed": operator.is_computed,
                "treatment": operator.treatment,
                "has_substitute": operator.has_substitute,
            }
            print(json.dumps(line))
        elif operator.is_computed:
            print(f"computed      {operator.name}  ({operator.treatment})")
        else:
            print(f"not computed  {operator.name}")
    if not arguments.json:
        computed = sum(operator.is_computed for operator in operators)
        print(f"{len(operators)} operators: {computed} computed, {len(operators) - computed} not")
    return 0
