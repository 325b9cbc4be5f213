"""Builds `user_profiler.c`: a profiler plugin of NCCL that prints what it is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

GROUP, COLLECTIVE, MESSAGE = 1, 2, 4
GROUP_CALL, COLLECTIVE_CALL, MESSAGE_CALL = 256, 512, 1024
EVERYTHING = GROUP | COLLECTIVE | MESSAGE | GROUP_CALL | COLLECTIVE_CALL | MESSAGE_CALL


def build_plugin(
    library: Path,
    *,
    version: int,
    mask: int = EVERYTHING,
    fails: bool = False,
    beside: Path | None = None,
) -> Path:
    """Compile the plugin for one version of the interface; it asks for the events of `mask`.

    Args:
        fails: It cannot be started.
        beside: A library whose symbols are found in this one as well.
    """
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", f"-DVERSION={version}"]
    command += [f"-DMASK={mask}", *(["-DFAILS"] if fails else [])]
    source = Path(__file__).with_name("user_profiler.c")
    command += [str(source), "-o", str(library)]
    if beside is not None:
        command += ["-Wl,--no-as-needed", str(beside)]
    subprocess.run(command, check=True)
    return library
