"""Two ranks started by torch.multiprocessing, which sets no variables; the parent uses no CUDA."""

import sys

import torch
import torch.distributed
import torch.multiprocessing


def rank_main(rank: int, store: str) -> None:
    """Join the group, then read on the default stream what a side stream writes."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2
    )
    torch.cuda.set_device(rank)
    side_stream = torch.cuda.Stream()
    values = torch.zeros(16, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side_stream):
        values.add_(1)
    values.mul(2)
    torch.cuda.synchronize()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank_main, args=(sys.argv[1],), nprocs=2)
