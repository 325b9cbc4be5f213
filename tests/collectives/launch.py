"""Starts the programs of these tests on several ranks and waits for what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cli.command import clean_environment

PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job printed and reported."""

    statuses: list[int | None]
    texts: list[str]
    reports: list[dict[str, object]]
    plans: list[dict[str, object]]
    seconds_to_report: float | None

    @property
    def text(self) -> str:
        """All ranks' output."""
        return "\n".join(f"[{rank}] {text}" for rank, text in enumerate(self.texts))


def launch(
    program: str,
    *arguments: str,
    ranks: int,
    output: Path,
    awaited: str | None = None,
    release: str | None = None,
    **environ: str,
) -> Outcome:
    """Run a program on `ranks` processes of this machine.

    Args:
        awaited: The program hangs and is killed after a report of this kind; None: it ends by
            itself. On a busy machine a rank may be reported as slow before.
        release: A DeepSpeed release of `.deepspeed`, if not the installed one.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    output.mkdir(parents=True, exist_ok=True)
    processes = []
    for rank in range(ranks):
        here = clean_environment(
            STREAMGUARD_VGPU=str(ranks), STREAMGUARD_RUN="test", STREAMGUARD_OUTPUT=str(output),
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_PORT=port,
            MASTER_ADDR="127.0.0.1", LOCAL_WORLD_SIZE=str(ranks), **environ,
        )  # fmt: skip
        if release is not None:
            folder = Path(__file__).parents[2] / ".deepspeed" / release
            here["PYTHONPATH"] = f"{folder}{os.pathsep}{here['PYTHONPATH']}"
        with (output / f"rank{rank}.txt").open("w") as file:
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(PROGRAMS / program), *arguments],
                    env=here, stdout=file, stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
    begin = time.monotonic()
    seconds = None
    try:
        while time.monotonic() - begin < LIMIT_S:
            reports = _lines(output / "desync.jsonl")
            if any(report["kind"] == awaited for report in reports):
                seconds = time.monotonic() - begin
                break
            if all(process.poll() is not None for process in processes):
                break
            time.sleep(0.1)
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
    texts = [(output / f"rank{rank}.txt").read_text(errors="replace") for rank in range(ranks)]
    return Outcome(
        [process.returncode for process in processes], texts, _lines(output / "desync.jsonl"),
        _lines(output / "plan.jsonl"), seconds,
    )  # fmt: skip


def _lines(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if "\n" in line]
