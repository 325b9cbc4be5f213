"""One rank of the soak: trains again and again, each time under another schedule, in one process.

`torchrun … -m tests.soak.program TRAINING RUNS FIRST_SEED` prints, from rank 0, progress and last a
JSON line. Every run must equal the CPU's training: all ranks see every rank's verdict.
"""

from __future__ import annotations

import argparse
import json
import os

import torch
from torch import distributed as dist

from streamguard.vgpu import describe, start_schedule
from tests.soak.trainings import RANKS, TRAININGS, on_cpu, settle

# Largest difference that counts as equal: the acceptance bound for fp32.
TOLERANCE = 1e-6


def tokens(runs: int, first_seed: int) -> list[str]:
    """`runs` runs of each policy, in turn."""
    found = []
    for seed in range(first_seed, first_seed + runs):
        found += ["lazy", f"random:{seed}", f"pct:{seed}"]
    return found


def main() -> None:
    """Train under every token and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("training", choices=sorted(TRAININGS))
    parser.add_argument("runs", type=int)
    parser.add_argument("first_seed", type=int)
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    train = TRAININGS[arguments.training]
    expected = on_cpu(rank)
    outcome = {"training": arguments.training, "runs": 0, "bitwise": 0, "wrong": []}
    largest = 0.0
    todo = tokens(arguments.runs, arguments.first_seed)
    for number, token in enumerate(todo, start=1):
        settle()
        start_schedule(token)
        found = train(rank)
        settle()
        # Compared under eager, so that the verdict's own collective cannot hide anything.
        start_schedule("eager")
        difference = float((found - expected).abs().max())
        verdict = torch.tensor([difference], device="cuda", dtype=torch.float64)
        verdicts = [torch.empty_like(verdict) for _ in range(RANKS)]
        dist.all_gather(verdicts, verdict)
        worst = max(float(one) for one in verdicts)
        is_wrong = not worst <= TOLERANCE  # also for NaN
        outcome["runs"] += 1
        outcome["bitwise"] += worst == 0
        if is_wrong:
            outcome["wrong"].append([token, worst])
        largest = max(largest, worst)
        if rank == 0 and (is_wrong or number % 30 == 0 or number == len(todo)):
            said = f" {token} differs by {worst}" if is_wrong else ""
            wrong = len(outcome["wrong"])
            print(f"{arguments.training}: {number} of {len(todo)}, {wrong} wrong{said}", flush=True)
    outcome |= {"largest": largest, "rescues": describe().rescues}
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
