"""Makes launchers carry the STREAMGUARD variables to other nodes where they would not.

torchrun and accelerate are started on every node by the user or pass the environment on themselves;
MPICH and Intel MPI pass everything on by default.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MPI = ("mpirun", "mpiexec", "orterun", "prterun")
_PREFIX = "STREAMGUARD"


@dataclass(frozen=True, slots=True)
class Launch:
    """A command and the environment to start it with."""

    command: tuple[str, ...]
    environ: Mapping[str, str]


@contextmanager
def forwarding(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Launch]:
    """Adapt a command so that every STREAMGUARD variable reaches all its ranks.

    Yields:
        What to start instead; temporary files exist until the block ends.
    """
    name = Path(command[0]).name
    if name in _MPI and _is_open_mpi(command[0], environ):
        yield Launch(_with_exports(command, environ), environ)
    elif name == "srun":
        yield Launch(_with_srun_exports(command, environ), environ)
    elif _is_deepspeed(command):
        with _deepspeed_environment_file(environ) as path:
            yield Launch(tuple(command), {**environ, "DS_ENV_FILE": path})
    else:
        yield Launch(tuple(command), environ)


def _variables(environ: Mapping[str, str]) -> list[str]:
    return sorted(name for name in environ if name.startswith(_PREFIX))


def _is_open_mpi(program: str, environ: Mapping[str, str]) -> bool:
    try:
        answer = subprocess.run(
            [program, "--version"], env=dict(environ), capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return any(name in answer.stdout for name in ("Open MPI", "OpenRTE", "PRRTE", "prte"))


def _with_exports(command: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Open MPI: `-x NAME` for each variable.

    Source: mpirun(1) of Open MPI, "-x <env>": without it only variables of the local node are set.
    """
    exports = [argument for name in _variables(environ) for argument in ("-x", name)]
    return (command[0], *exports, *command[1:])


def _with_srun_exports(command: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """SLURM passes everything on unless the user restricts it with `--export`.

    Source: srun(1), "--export".
    """
    names = ",".join(_variables(environ))
    adapted = []
    for argument in command:
        if argument == "--export=NONE":
            adapted.append(f"--export={names}")
        elif argument.startswith("--export=") and "ALL" not in argument[9:].split(","):
            adapted.append(f"{argument},{names}")
        else:
            adapted.append(argument)
    return tuple(adapted)


def _is_deepspeed(command: Sequence[str]) -> bool:
    """`deepspeed …`, `ds …`, `python …/deepspeed …` or `python -m deepspeed.launcher.runner …`."""
    names = [Path(argument).name for argument in command[:3]]
    if names[0] in ("deepspeed", "deepspeed.pt", "ds"):
        return True
    if not names[0].startswith("python"):
        return False
    return names[1:2] == ["deepspeed"] or names[1:] == ["-m", "deepspeed.launcher.runner"]


@contextmanager
def _deepspeed_environment_file(environ: Mapping[str, str]) -> Iterator[str]:
    """A DeepSpeed environment file with the user's entries and ours.

    Source: deepspeed/launcher/runner.py, 0.9.5 to 0.19.8: the file `$DS_ENV_FILE` or
    `.deepspeed_env` of the home and of the current directory, one NAME=VALUE a line, a later one
    wins; an absolute `$DS_ENV_FILE` replaces both. It is read for runs on several nodes only.
    """
    lines = _users_entries(environ)
    lines += [f"{name}={environ[name]}" for name in _variables(environ)]
    handle, path = tempfile.mkstemp(prefix="streamguard-", suffix=".deepspeed_env")
    try:
        with os.fdopen(handle, "w") as file:
            file.writelines(f"{line}\n" for line in lines)
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


def _users_entries(environ: Mapping[str, str]) -> list[str]:
    name = environ.get("DS_ENV_FILE") or ".deepspeed_env"
    home = environ.get("HOME") or str(Path.home())
    entries: list[str] = []
    for path in dict.fromkeys((Path(home, name), Path(name))):
        if path.is_file():
            entries += [line for line in path.read_text().splitlines() if line.strip()]
    return entries
