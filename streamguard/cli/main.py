"""Entry of the `streamguard` command: one parser, one module for each subcommand."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from streamguard import __version__
from streamguard.errors import StreamguardError, UsageError
from streamguard.exit_status import USAGE

# In the order of `--help`. Each module has `add_parser(subparsers)`, which sets `run` as default.
_SUBCOMMANDS = (
    *("run", "show", "merge", "replay", "explain", "litmus", "verify-reducer", "vgpu"),
    *("audit", "desync"),
)


class Subparsers(Protocol):
    """What argparse returns from `add_subparsers`; its own class is private."""

    def add_parser(self, name: str, *, help: str, description: str) -> argparse.ArgumentParser:
        """Add one subcommand."""


class Subcommand(Protocol):
    """A module of this package that is a subcommand."""

    def add_parser(self, subparsers: Subparsers) -> None:
        """Add the parser and set its `run` default: `run(arguments) -> exit status`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Labels and paths are the user's: one that the terminal cannot show must not end a report.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return int(parsed.run(parsed))
    except UsageError as error:
        print(f"streamguard {parsed.subcommand}: {error}", file=sys.stderr)
        return USAGE
    except StreamguardError as error:
        print(f"streamguard {parsed.subcommand}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has gone, e.g. `streamguard show | head`; Python would complain
        # once more when it flushes stdout at exit.
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="streamguard",
        description="Finds CUDA stream and event races in PyTorch and DeepSpeed programs.",
    )
    parser.add_argument("--version", action="version", version=f"streamguard {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    for name in _SUBCOMMANDS:
        module = f"streamguard.cli.{name.replace('-', '_')}"
        if importlib.util.find_spec(module) is None:
            # A part that this installation was built without.
            continue
        subcommand = cast(Subcommand, importlib.import_module(module))
        subcommand.add_parser(cast(Subparsers, subparsers))
    return parser


if __name__ == "__main__":
    sys.exit(main())
