"""Ways to train one small model on two ranks, and the same training on the CPU alone.

Every function trains from the same start on the same data and returns losses and parameters as one
vector on the CPU: shape [STEPS + parameters].
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache

import torch
from torch import distributed as dist
from torch import nn

RANKS = 2
STEPS = 3
WIDTH = 12
LEARNING_RATE = 1e-2


def make_model() -> nn.Sequential:
    """Four layers, of which each is a bucket or a shard of its own."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*layers)


def batch(step: int, rank: int) -> torch.Tensor:
    """One rank's inputs, made on the CPU: shape [6, WIDTH]."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(6, WIDTH, generator=generator)


def make_optimizer(parameters: object) -> torch.optim.AdamW:
    """The optimizer of every training."""
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE)  # type: ignore[arg-type] # any iterable


def on_cpu(rank: int) -> torch.Tensor:
    """The mean of all ranks' gradients, computed one after the other; losses of `rank`."""
    model = make_model()
    optimizer = make_optimizer(model.parameters())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for other in range(RANKS):
            loss = model(batch(step, other)).square().mean()
            (loss / RANKS).backward()
            if other == rank:
                losses.append(loss.detach())
        optimizer.step()
    return _as_vector(losses, model.parameters())


def with_ddp(rank: int) -> torch.Tensor:
    """DistributedDataParallel with buckets of one layer."""
    model = make_model().cuda()
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=0.0005)
    optimizer = make_optimizer(model.parameters())
    losses = _steps(parallel, rank, optimizer)
    return _as_vector(losses, model.parameters())


def with_fsdp(rank: int) -> torch.Tensor:
    """FSDP2, each layer a group of its own."""
    from torch.distributed.fsdp import fully_shard

    model = make_model().cuda()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=_mesh())
    fully_shard(model, mesh=_mesh())
    optimizer = make_optimizer(model.parameters())
    losses = _steps(model, rank, optimizer)
    return _as_vector(losses, [p.full_tensor() for p in model.parameters()])  # type: ignore[attr-defined] # DTensor


@cache
def _mesh() -> object:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cuda", (RANKS,))


def with_zero(
    stage: int,
    make: Callable[[object], torch.optim.Optimizer] = make_optimizer,
    **options: object,
) -> Callable[[int], torch.Tensor]:
    """DeepSpeed with communication overlapped and buckets of about one layer.

    Args:
        stage: 1, 2 or 3.
        make: Makes the optimizer of these parameters, which computes what `make_optimizer`'s does.
        options: More of the configuration's `zero_optimization`.
    """

    def train(rank: int) -> torch.Tensor:
        import deepspeed

        bucket = WIDTH * (WIDTH + 1)
        config = {
            "train_micro_batch_size_per_gpu": 6,
            "steps_per_print": 1_000_000,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "zero_optimization": {
                "stage": stage,
                "overlap_comm": True,
                "contiguous_gradients": True,
                "reduce_bucket_size": bucket,
                "allgather_bucket_size": bucket,
                "stage3_param_persistence_threshold": 0,
                **options,
            },
        }
        model = make_model()
        engine, _, _, _ = deepspeed.initialize(
            model=model, optimizer=make(model.parameters()), config=config
        )
        losses = []
        for step in range(STEPS):
            loss = engine(batch(step, rank).to(engine.device)).square().mean()
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
        with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=stage == 3):
            vector = _as_vector(losses, model.parameters())
        engine.destroy()
        _forget_models()
        return vector

    return train


def _forget_models() -> None:
    """Let go of the models of stage 3 engines, which DeepSpeed 0.19.8 keeps for good."""
    from deepspeed.runtime.zero import parameter_offload
    from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator

    parameter_offload.FWD_MODULE_STACK.clear()
    cached = PartitionedParameterCoordinator._PartitionedParameterCoordinator__params_to_release
    inspect.getclosurevars(cached).nonlocals["func"].cache_clear()  # under the NVTX decorator


# The optimizer is torch's, on the CPU: DeepSpeed's own is an extension that must be compiled.
_ON_HOST = {"device": "cpu", "pin_memory": True}

TRAININGS: dict[str, Callable[[int], torch.Tensor]] = {
    "ddp": with_ddp,
    "fsdp2": with_fsdp,
    "zero1": with_zero(1),
    "zero2": with_zero(2),
    "zero3": with_zero(3),
    "offload2": with_zero(2, offload_optimizer=_ON_HOST),
    "offload3": with_zero(3, offload_optimizer=_ON_HOST),
}


def _steps(
    model: Callable[[torch.Tensor], torch.Tensor], rank: int, optimizer: torch.optim.Optimizer
) -> list[torch.Tensor]:
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(batch(step, rank).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def _as_vector(losses: list[torch.Tensor], parameters: object) -> torch.Tensor:
    parts = [torch.stack(losses), *(p.detach().flatten() for p in parameters)]  # type: ignore[attr-defined] # any iterable
    return torch.cat([part.float().cpu() for part in parts])


def settle() -> None:
    """Wait on the host until no collective is under way on any rank."""
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
