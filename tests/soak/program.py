"""One rank of the soak: trains again and again, each time under another schedule, in one process.

`torchrun … -m tests.soak.program TRAINING TOKEN…` prints, from rank 0, progress and last a JSON
line; any rank prints the token of a run that differs from the CPU's training at once.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import time
from pathlib import Path

import torch
from torch import distributed as dist

from streamguard.vgpu import describe, start_schedule
from tests.soak.trainings import RANKS, TRAININGS, on_cpu, settle

# Largest difference that counts as equal: the acceptance bound for fp32.
TOLERANCE = 1e-6
# Runs until memory has found its size: caches, allocator arenas.
WARM_RUNS = 30
PROGRESS_S = 20.0


def memory_mib() -> float:
    """What this process holds in memory, shared pages included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def train_under(training: str, tokens: list[str], rank: int) -> dict[str, object]:
    """What one rank found: runs, those equal bit by bit, wrong ones, memory grown since warm."""
    train = TRAININGS[training]
    expected = on_cpu(rank)
    differences: dict[str, float] = {}
    warm_mib = 0.0
    said = time.monotonic()
    for number, token in enumerate(tokens, start=1):
        settle()
        start_schedule(token)
        # The result lies on the CPU: comparing it issues nothing that could hide an error.
        difference = float((train(rank) - expected).abs().max())
        differences[token] = max(difference, differences.get(token, 0.0))
        if not difference <= TOLERANCE:  # also for NaN
            print(f"{training}: WRONG under {token}: rank {rank} by {difference}", flush=True)
        if number == WARM_RUNS:
            warm_mib = memory_mib()
        if rank == 0 and (time.monotonic() - said > PROGRESS_S or number == len(tokens)):
            said = time.monotonic()
            print(f"{training}: {number} of {len(tokens)} runs, now {token}", flush=True)
    settle()
    return {
        "differences": differences,
        "grown_mib": memory_mib() - warm_mib if len(tokens) > WARM_RUNS else 0.0,
        "rescues": describe().rescues,
    }


def main() -> None:
    """Train under every token and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("training", choices=sorted(TRAININGS))
    parser.add_argument("tokens", nargs="+", metavar="TOKEN")
    arguments = parser.parse_args()
    # DeepSpeed's import says that Triton is missing, which nothing here needs.
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    TRAININGS[arguments.training](rank)
    settle()
    # Every new schedule and every engine collects garbage: most of a run's time, were the imported
    # modules looked through again each time.
    gc.collect()
    gc.freeze()
    found = train_under(arguments.training, arguments.tokens, rank)
    start_schedule("eager")
    everyone: list[dict[str, object] | None] = [None] * RANKS
    dist.all_gather_object(everyone, found)
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(everyone), flush=True)


if __name__ == "__main__":
    main()
