"""Runs the streamguard command and programs under it, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

COMMAND = (sys.executable, "-m", "streamguard.cli.main")
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300


def clean_environment(**changes: str) -> dict[str, str]:
    """The environment without any STREAMGUARD variable and with this Python first on the path."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("STREAMGUARD")
    }
    binaries = str(Path(sys.executable).parent)
    environ["PATH"] = f"{binaries}{os.pathsep}{environ.get('PATH', '')}"
    environ["PYTHONPATH"] = str(ROOT)
    environ["OMP_NUM_THREADS"] = "1"
    return {**environ, **changes}


def run(
    *command: str, cwd: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; a hang is an error."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=dict(clean_environment() if environ is None else environ),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def streamguard(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `streamguard …`."""
    return run(*COMMAND, *arguments, cwd=cwd, environ=environ)


def summary(output: str) -> str:
    """The last SUMMARY line of an output."""
    lines = [line for line in output.splitlines() if line.startswith("SUMMARY ")]
    assert lines, f"no SUMMARY line in:\n{output}"
    return lines[-1]
