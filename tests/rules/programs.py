"""Programs of the rule tests: started on the virtual GPU in their own processes, values off.

With RULES_GPUS, the number of GPUs, the same tests run there: `make gpu-check`.

A race test gives the racy text and the one call that repairs it, so that both halves differ in
nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

RUNNER = Path(__file__).with_name("watched_program.py")
ROOT = Path(__file__).parents[2]

PROCESS_GROUP = """
import datetime, os
import torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=60))
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the hooks said about one process."""

    findings: list[dict[str, Any]]
    announced: list[int]
    watched: list[dict[str, Any]]
    coverage: dict[str, Any]
    program: Path

    def line_of(self, access: dict[str, Any]) -> str:
        """Return the text of the program line that issued an access, or "" when it has none."""
        return next(iter(self.lines_of(access)), "")

    def lines_of(self, access: dict[str, Any]) -> list[str]:
        """Return the text of the program's lines in an access's frames, innermost first."""
        text = self.program.read_text().splitlines()
        return [
            text[line - 1].strip()
            for file, line, _ in access["frames"]
            if file == str(self.program)
        ]


def run(directory: Path, program: str, *, devices: int = 1, **environ: str) -> Outcome:
    """Run a program of one process."""
    file = _write(directory, program)
    return _result(_start(file, directory / "result.json", devices, environ), file)


def run_ranks(directory: Path, program: str, *, ranks: int = 2, **environ: str) -> list[Outcome]:
    """Run a program on `ranks` processes with one device each; `rank` and `dist` are set."""
    file = _write(directory, PROCESS_GROUP, program, "torch.cuda.synchronize()")
    store = directory / "rendezvous"
    started = []
    for rank in range(ranks):
        here = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port(store)),
            **environ,
        }
        started.append(_start(file, directory / f"result{rank}.json", ranks, here))
    return [_result(process, file) for process in started]


def _write(directory: Path, *parts: str) -> Path:
    file = directory / "program.py"
    file.write_text("\n".join(textwrap.dedent(part) for part in parts))
    return file


def _free_port(store: Path) -> int:
    """Choose a port once per run; all ranks read the same one."""
    if not store.exists():
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            store.write_text(str(probe.getsockname()[1]))
    return int(store.read_text())


@dataclass(frozen=True, slots=True)
class _Started:
    process: subprocess.Popen[str]
    result: Path


def _start(file: Path, result: Path, devices: int, environ: dict[str, str]) -> _Started:
    gpus = os.environ.get("RULES_GPUS")
    if gpus is not None and devices > int(gpus):
        pytest.skip(f"needs {devices} GPUs, there are {gpus}")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    process = subprocess.Popen(
        [sys.executable, str(RUNNER), str(file), str(result), str(devices)],
        env={
            **inherited,
            "PYTHONPATH": path,
            "STREAMGUARD_VGPU_VALUES": "0",
            "OMP_NUM_THREADS": "1",
            **environ,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return _Started(process, result)


def _result(started: _Started, file: Path) -> Outcome:
    output, _ = started.process.communicate(timeout=600)
    assert started.process.returncode == 0, output
    return Outcome(**json.loads(started.result.read_text()), program=file)
