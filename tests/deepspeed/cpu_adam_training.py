"""One rank of ZeRO-Offload with DeepSpeed's own Adam, which its first use compiles with g++.

`torchrun … -m tests.deepspeed.cpu_adam_training STAGE` compares with the same training on the CPU.
"""

from __future__ import annotations

import os
import sys

import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam
from torch import distributed as dist

from tests.soak.trainings import LEARNING_RATE, STEPS, on_cpu, with_zero

# Largest difference that counts as equal: the acceptance bound for fp32.
TOLERANCE = 1e-6


def make_optimizer(parameters: object) -> torch.optim.Optimizer:
    """AdamW with torch's default weight decay."""
    return DeepSpeedCPUAdam(parameters, lr=LEARNING_RATE, weight_decay=1e-2)


def main() -> None:
    """Train and compare."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    on_host = {"device": "cpu", "pin_memory": True}
    train = with_zero(int(sys.argv[1]), make_optimizer, offload_optimizer=on_host)
    difference = float((train(rank) - on_cpu(rank)).abs().max())
    outcome = "equal" if difference <= TOLERANCE else f"differs by {difference}"
    # One write, line end included: torchrun's ranks share a pipe and do not buffer.
    sys.stdout.write(f"rank {rank}: {outcome}, {STEPS} steps\n")
    dist.destroy_process_group()


main()
