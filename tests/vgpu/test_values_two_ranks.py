"""Data-parallel training on two virtual GPUs gives what one process on the CPU gives."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.vgpu.values_program import SCHEDULES
from tests.vgpu.values_two_ranks import RANKS


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@cache
def _train(schedule: str) -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")} | {
        "STREAMGUARD_VGPU_SCHEDULE": schedule,
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": _free_port(),
        "WORLD_SIZE": str(RANKS),
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.vgpu.values_two_ranks"],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    outputs = [rank.communicate() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * RANKS, outputs[0][1][-3000:]
    outcome: dict[str, Any] = json.loads(outputs[0][0].splitlines()[-1])
    return outcome


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ddp_trains_as_one_process(schedule: str) -> None:
    """Losses and parameters are bit-equal: a mean over two ranks rounds the same in any order."""
    outcome = _train(schedule)["plain"]

    assert outcome["single"] == outcome["parallel"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_fsdp2_trains_as_one_process(schedule: str) -> None:
    """Sharded parameters, gathered for each layer: losses and parameters are bit-equal."""
    outcome = _train(schedule)["sharded"]

    assert outcome["single"] == outcome["parallel"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_synchronised_batch_norm_uses_both_ranks_batches(schedule: str) -> None:
    """Losses, parameters and running statistics agree with one batch norm over both batches."""
    outcome = _train(schedule)["normalised"]

    assert outcome["parallel"] == pytest.approx(outcome["single"], rel=1e-4, abs=1e-5)
