"""Runs a program under `streamguard run` on the virtual GPU and reads what it printed and wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Run:
    """Status, the program's last line of output as JSON, the report, and the joined records."""

    status: int
    printed: Any
    text: str
    records: list[dict[str, Any]]

    def of_type(self, name: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["type"] == name]

    @property
    def summary(self) -> dict[str, Any]:
        return self.of_type("summary")[0]


def run(
    output: Path,
    *command: str,
    options: tuple[str, ...] = (),
    devices: int = 1,
    ranks: int = 1,
    environ: Mapping[str, str] | None = None,
) -> Run:
    """Run `python command` (under torchrun when there are several ranks) and read the results.

    Without `devices` it runs on the machine's own GPUs.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **(environ or {})}
    python = [sys.executable]
    if ranks > 1:
        python = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", str(ranks)]
    virtual = ["--vgpu", str(devices)] if devices else []
    done = subprocess.run(
        [str(BIN / "streamguard"), "run", *virtual, "--output", str(output), *options, "--",
         *python, *command],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    text = done.stdout + done.stderr
    printed = [line for line in done.stdout.splitlines() if line.startswith(("{", "["))]
    assert len(printed) == 1, text[-6000:]
    merged = subprocess.run(
        [str(BIN / "streamguard"), "merge", "--json", str(output)], capture_output=True, text=True
    )
    records = [json.loads(line) for line in merged.stdout.splitlines()]
    return Run(done.returncode, json.loads(printed[0]), text, records)
