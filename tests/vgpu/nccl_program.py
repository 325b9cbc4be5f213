"""What the NCCL test programs share: a process group on the virtual GPU and small tensors."""

from __future__ import annotations

import datetime
import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])


def start(*, bind_device: bool = False) -> None:
    """Initialise the default group; with `bind_device` its communicator is made at once."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl",
        timeout=datetime.timedelta(seconds=60),
        device_id=torch.device("cuda", rank) if bind_device else None,
    )


def tensor(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A device tensor; its values travel by copy, so no kernel has to run."""
    return torch.tensor(values).to(dtype).cuda()


def empty(n: int) -> torch.Tensor:
    """Uninitialised device floats."""
    return torch.empty(n, device="cuda")


def show(name: str, *tensors: torch.Tensor) -> None:
    """Print `name` and the values of the tensors."""
    print(name, [t.cpu().tolist() for t in tensors], flush=True)
