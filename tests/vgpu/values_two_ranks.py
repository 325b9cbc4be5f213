"""Data-parallel training on two ranks; each rank is a process on the virtual GPU.

`python -m tests.vgpu.values_two_ranks` prints, from rank 0, one JSON object: for each model its
losses and parameters, and those of the same training in one process on the CPU.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

RANKS = 2
STEPS = 3


def batch(step: int, rank: int) -> Any:
    """One rank's inputs, made on the CPU: shape [6, 8]."""
    import torch

    torch.manual_seed(100 * step + rank)
    return torch.randn(6, 8)


def plain_model() -> Any:
    """Linear layers only: every rank's gradient depends on its own batch alone."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def normalised_model() -> Any:
    """Batch normalisation over both ranks' batches.

    No bias before it: its gradient is 0 but for rounding, which AdamW would blow up to a full step.
    """
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4)
    )


MODELS: dict[str, Callable[[], Any]] = {"plain": plain_model, "normalised": normalised_model}


def _optimizer(model: Any) -> Any:
    import torch

    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def train_on_two_ranks(make: Callable[[], Any], rank: int) -> Iterator[float]:
    """Train with DDP on this rank's device; yields the rank's losses, then parameters."""
    import torch
    from torch.nn import SyncBatchNorm
    from torch.nn.parallel import DistributedDataParallel

    model = SyncBatchNorm.convert_sync_batchnorm(make()).to("cuda")
    parallel = DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=0.0005)
    optimizer = _optimizer(model)
    for step in range(STEPS):
        loss = parallel(batch(step, rank).to("cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
    yield from torch.cat([p.detach().cpu().flatten() for p in model.state_dict().values()]).tolist()


def train_sharded(rank: int) -> Iterator[float]:
    """Train the plain model with FSDP2; yields the rank's losses, then the gathered parameters."""
    import torch
    from torch.distributed.fsdp import fully_shard

    model = plain_model().to("cuda")
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    optimizer = _optimizer(model)
    for step in range(STEPS):
        loss = model(batch(step, rank).to("cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
    whole = [parameter.full_tensor().detach().cpu() for parameter in model.parameters()]
    yield from torch.cat([parameter.flatten() for parameter in whole]).tolist()


def train_in_one_process(make: Callable[[], Any]) -> Iterator[float]:
    """Train on the CPU, with the mean of the gradients of both batches."""
    import torch

    model = make()
    optimizer = _optimizer(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        if make is normalised_model:
            outputs = model(torch.cat([batch(step, rank) for rank in range(RANKS)]))
            losses = [part.square().mean() for part in outputs.chunk(RANKS)]
        else:
            losses = [model(batch(step, rank)).square().mean() for rank in range(RANKS)]
        sum(loss / RANKS for loss in losses).backward()
        optimizer.step()
        yield losses[0].item()
    yield from torch.cat([p.detach().flatten() for p in model.state_dict().values()]).tolist()


def main() -> None:
    """Train as one rank of the job that the environment describes."""
    from streamguard.vgpu.load import load

    load(RANKS)
    import torch

    from streamguard.vgpu import values

    values.install()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    outcome = {}
    for name, make in MODELS.items():
        parallel = list(train_on_two_ranks(make, rank))
        single = list(train_in_one_process(make)) if rank == 0 else []
        outcome[name] = {"parallel": parallel, "single": single}
    outcome["sharded"] = {
        "parallel": list(train_sharded(rank)),
        "single": outcome["plain"]["single"],
    }
    torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps(outcome))


if __name__ == "__main__":
    main()
