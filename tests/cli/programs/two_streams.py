"""Adds on a side stream and reads on the default stream; `repaired` waits in between.

Words on the command line switch on what a test needs: `repaired`, `raise`, `exit` (status 3),
`kill` (of the last rank), `chdir`, `fork` (a child that ends by itself), `full` (no file may
grow), `again` (the same race once more), `late` (rank 1 ends after its node was reported on).
"""

import os
import resource
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed

WORDS = set(sys.argv[1:])


def double_after_add(*, is_repaired: bool, times: int) -> float:
    """Return 2 * (0 + times), if every read waits for the write before it."""
    side_stream = torch.cuda.Stream()
    values = torch.zeros(1024, device="cuda")
    for _ in range(times):
        torch.cuda.synchronize()
        with torch.cuda.stream(side_stream):
            values.add_(1)
        if is_repaired:
            torch.cuda.current_stream().wait_stream(side_stream)
        doubled = values * 2
    return doubled[0].item()


def main() -> None:
    """Run what the words ask for."""
    rank = int(os.environ.get("RANK", "0"))
    is_distributed = "RANK" in os.environ
    if is_distributed:
        torch.distributed.init_process_group("gloo")
        torch.cuda.set_device(rank)
    if "chdir" in WORDS:
        os.chdir("/")
    if "full" in WORDS:
        torch.cuda.init()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    result = double_after_add(is_repaired="repaired" in WORDS, times=2 if "again" in WORDS else 1)
    if "fork" in WORDS:
        child = os.fork()
        if child == 0:
            print("child", flush=True)
            sys.exit(0)
        os.waitpid(child, 0)
    if is_distributed:
        torch.distributed.barrier()
    if "kill" in WORDS and rank == int(os.environ.get("WORLD_SIZE", "1")) - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if "raise" in WORDS:
        raise RuntimeError("the program's own error")
    if "exit" in WORDS:
        sys.exit(3)
    print(f"result {result}")
    if "late" in WORDS and os.environ.get("SLURM_PROCID") == "1":
        while not list(Path().glob("streamguard-slurm-*/report-*")):
            time.sleep(0.05)


main()
