"""Programs that train with ZeroOptimizer on every rank and say what came out."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as distributed
from torch import nn

from streamguard.errors import UsageError
from streamguard.zero import LossScale, ZeroOptimizer
from tests.zero.programs import digest

WIDTH = 8


def model(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Two layers and a norm, the same on all ranks."""
    torch.manual_seed(3)
    layers = (nn.Linear(WIDTH, 20), nn.Tanh(), nn.LayerNorm(20), nn.Linear(20, WIDTH))
    return nn.Sequential(*layers).to(dtype).to("cuda")


def batch(step: int, rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """One rank's inputs: shape [4, WIDTH]."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(4, WIDTH, generator=generator).to(dtype).to("cuda")


def optimizer_of(module: nn.Module, **options: Any) -> ZeroOptimizer:
    """AdamW with small buckets, two groups of other decay."""
    decayed = [p for p in module.parameters() if p.dim() > 1]
    rest = [p for p in module.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    return ZeroOptimizer(groups, torch.optim.AdamW, lr=1e-2, bucket_bytes=256, **options)


def train(module: nn.Module, optimizer: ZeroOptimizer, steps: range, rank: int) -> None:
    """Make some steps."""
    for step in steps:
        optimizer.backward(module(batch(step, rank)).square().mean())
        optimizer.step()
        optimizer.zero_grad()


def values(module: nn.Module) -> list[float]:
    """All parameters as one list."""
    return torch.cat([p.detach().cpu().double().flatten() for p in module.parameters()]).tolist()


def beside_ddp(rank: int, ranks: int, argument: dict[str, Any]) -> dict[str, Any]:
    """Train the same model with DDP and plain AdamW, clipped and with a schedule of rates."""
    ours, theirs = model(), model()
    optimizer = optimizer_of(ours, stage=argument["stage"], max_norm=0.05)
    parallel = nn.parallel.DistributedDataParallel(theirs, device_ids=[rank])
    plain = torch.optim.AdamW(
        [{**group, "params": list(group["params"])} for group in optimizer_groups(theirs)], lr=1e-2
    )
    schedules = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (optimizer, plain)]
    norms = []
    for step in range(5):
        optimizer.backward(ours(batch(step, rank)).square().mean())
        optimizer.step()
        parallel(batch(step, rank)).square().mean().backward()
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), 0.05)
        norms.append((float(optimizer.norm), float(expected)))
        plain.step()
        plain.zero_grad()
        for schedule in schedules:
            schedule.step()
    return {"ours": values(ours), "ddp": values(theirs), "norms": norms}


def optimizer_groups(module: nn.Module) -> list[dict[str, Any]]:
    """The groups of `optimizer_of`."""
    return [
        {"params": [p for p in module.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in module.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]


def refusals(rank: int, ranks: int, argument: object) -> dict[str, str]:
    """Do what cannot work; return the type of each error."""

    def error_of(action: Callable[[], object]) -> str:
        try:
            action()
        except Exception as error:
            return type(error).__name__
        return "none"

    module = model()
    optimizer = optimizer_of(module)
    result = {"step without backward": error_of(optimizer.step)}
    with optimizer.no_sync():
        module(batch(0, rank)).sum().backward()
    result["step inside accumulation"] = error_of(optimizer.step)
    optimizer.zero_grad()
    result["step after zero_grad"] = error_of(optimizer.step)
    result["another group"] = error_of(lambda: optimizer.add_param_group({"params": []}))
    embedding = nn.Embedding(4, WIDTH, sparse=True).to("cuda")
    sparse = ZeroOptimizer(embedding, torch.optim.SGD, lr=0.1)
    index = torch.zeros(1, dtype=torch.int64, device="cuda")
    result["sparse"] = error_of(lambda: embedding(index).sum().backward())
    sparse.reducer.close()
    twin = nn.Linear(3, 3).to("cuda")
    other = nn.Linear(3, 3).to("cuda")
    other.weight.data = twin.weight.data
    both = [twin.weight, other.weight]
    result["two over one memory"] = error_of(lambda: ZeroOptimizer(both, torch.optim.SGD, lr=0.1))
    on_host = nn.Linear(3, 3)
    result["on the host"] = error_of(lambda: ZeroOptimizer(on_host, torch.optim.SGD, lr=0.1))
    frozen = nn.Linear(3, 3).to("cuda")
    frozen.bias.requires_grad_(False)
    thawing = ZeroOptimizer(frozen, torch.optim.SGD, lr=0.1)
    frozen.bias.requires_grad_(True)
    frozen(torch.ones(1, 3, device="cuda")).sum().backward()
    result["unfrozen later"] = error_of(thawing.step)
    for stage, ring_size in ((3, 2), (2, 0)):
        options = {"stage": stage, "ring_size": ring_size}
        result[f"stage {stage}, ring {ring_size}"] = error_of(
            lambda o=options: optimizer_of(module, **o)
        )
    return result


class _Fails(torch.autograd.Function):
    """The identity, whose backward raises."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("the program's own error")


def raise_inside_backward(rank: int, ranks: int, argument: dict[str, Any]) -> dict[str, Any]:
    """Between two good steps one in which rank 0's backward raises half way and all give up."""
    module = model()
    optimizer = optimizer_of(module, max_norm=1.0)
    train(module, optimizer, range(1), rank)
    errors = []
    if argument["fails"]:
        hidden = module[2](module[1](module[0](batch(7, rank))))
        loss = module[3](_Fails.apply(hidden) if rank == 0 else hidden).square().mean()
        for action in (loss.backward, optimizer.step, optimizer.zero_grad):
            try:
                # The other ranks have reduced gradients, but make no step without rank 0.
                if rank == 0 or action == loss.backward:
                    action()
            except (RuntimeError, UsageError) as error:
                errors.append(type(error).__name__)
        optimizer.abandon()
    train(module, optimizer, range(1, 2), rank)
    return {"errors": errors, "values": values(module)}


def overflow(rank: int, ranks: int, argument: object) -> dict[str, Any]:
    """float16 and a loss scale; the second of three steps overflows on the last rank only."""
    module = model(torch.float16)
    optimizer = optimizer_of(module, loss_scale=LossScale(1024.0, growth_interval=2))
    scales, kept = [], []
    for step in range(3):
        before = values(module)
        factor = 1e4 if step == 1 and rank == ranks - 1 else 1.0
        optimizer.backward(
            module(batch(step, rank, torch.float16)).float().square().mean() * factor
        )
        optimizer.step()
        assert optimizer.loss_scale is not None
        scales.append(optimizer.loss_scale.scale)
        kept.append(values(module) == before)
    return {"scales": scales, "kept": kept, "skipped": optimizer.skipped_steps}


def lose_a_rank(rank: int, ranks: int, argument: object) -> None:
    """The last rank dies inside backward."""
    module = model()
    optimizer = optimizer_of(module)
    train(module, optimizer, range(1), rank)
    loss = module(batch(1, rank)).square().mean()
    if rank == ranks - 1:
        module[0].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()


def two_groups(rank: int, ranks: int, argument: object) -> dict[str, Any]:
    """Four ranks: the second layer is an expert of even and of odd ranks, the first one of all."""
    expert_groups = [distributed.new_group([0, 2]), distributed.new_group([1, 3])]
    torch.manual_seed(5)
    dense = nn.Linear(WIDTH, WIDTH).to("cuda")
    torch.manual_seed(rank % 2)
    expert = nn.Linear(WIDTH, WIDTH).to("cuda")
    module = nn.Sequential(dense, nn.Tanh(), expert)
    experts = {id(p) for p in expert.parameters()}
    plain = torch.autograd.grad(module(batch(0, rank)).square().mean(), list(module.parameters()))
    sums = [gradient.double() for gradient in plain]
    for parameter, total in zip(module.parameters(), sums, strict=True):
        group = expert_groups[rank % 2] if id(parameter) in experts else None
        distributed.all_reduce(total, group=group)
        total /= distributed.get_world_size(group)
    # Dense gradients count once; each of the two experts once.
    squares = torch.stack([s.square().sum() / (2 if i >= 2 else 4) for i, s in enumerate(sums)])
    norm = squares.sum()
    distributed.all_reduce(norm)
    optimizer = ZeroOptimizer(
        module,
        torch.optim.SGD,
        lr=1.0,
        max_norm=1e9,
        process_group_of=lambda p: expert_groups[rank % 2] if id(p) in experts else None,
    )
    before = [p.detach().clone() for p in module.parameters()]
    optimizer.backward(module(batch(0, rank)).square().mean())
    optimizer.step()
    steps = [b - p.detach() for b, p in zip(before, module.parameters(), strict=True)]
    errors = [float((s.double() - e).abs().max()) for s, e in zip(steps, sums, strict=True)]
    assert optimizer.norm is not None
    return {"errors": errors, "norm": float(optimizer.norm), "expected": float(norm.sqrt())}


def steady_state(rank: int, ranks: int, argument: object) -> dict[str, Any]:
    """Six steps of stage 2; what is allocated after the second."""
    module = model()
    optimizer = ZeroOptimizer(
        module, torch.optim.AdamW, lr=1e-2, bucket_bytes=512, ring_size=2, max_norm=1.0
    )
    train(module, optimizer, range(2), rank)
    before = torch.cuda.memory_stats()
    peak = []
    for step in range(2, 6):
        torch.cuda.reset_peak_memory_stats()
        train(module, optimizer, range(step, step + 1), rank)
        peak.append(torch.cuda.max_memory_allocated())
    after = torch.cuda.memory_stats()
    memory = optimizer.reducer.memory
    layout = optimizer.reducer.layout
    return {
        "device_allocations": after["num_device_alloc"] - before["num_device_alloc"],
        "blocks": after["active.all.current"] - before["active.all.current"],
        "peaks": len(set(peak)),
        "slots": memory.slots,
        "shards": memory.shards,
        "deferred": memory.deferred_peak,
        "bucket_bytes": layout.bucket_bytes,
        "gradient_bytes": sum(4 * p.numel() for p in module.parameters()),
        "padding_bytes": 4 * sum(bucket.padding for bucket in layout.buckets),
    }


def deferred_with_two_groups(rank: int, ranks: int, argument: dict[str, bool]) -> int:
    """Bytes of gradients that waited for a bucket of the other group, over two steps."""
    module = model()
    order = {"order_of_use": module} if argument["is_ordered"] else {}
    optimizer = optimizer_of(module, **order)
    train(module, optimizer, range(2), rank)
    return optimizer.reducer.memory.deferred_peak


def save(rank: int, ranks: int, argument: dict[str, str]) -> dict[str, Any]:
    """Train, save in three ways, go on; load each into a new optimizer and go on from there."""
    import torch.distributed.checkpoint as checkpoint

    module = model(torch.bfloat16)
    optimizer = optimizer_of(module)

    def go_on(trained: nn.Module, with_optimizer: ZeroOptimizer) -> str:
        loss = trained(batch(9, rank, torch.bfloat16)).float().square().mean()
        with_optimizer.backward(loss)
        with_optimizer.step()
        masters = list(with_optimizer.flat.masters.values())
        return digest([*masters, *(p.detach() for p in trained.parameters())])

    for step in range(2):
        optimizer.backward(module(batch(step, rank, torch.bfloat16)).float().square().mean())
        optimizer.step()
    torch.save(optimizer.state_dict(), f"{argument['directory']}/shards-{rank}.pt")
    whole = optimizer.full_state_dict()
    if rank == 0:
        torch.save(whole, f"{argument['directory']}/whole.pt")
    checkpoint.save(optimizer.sharded_state_dict(), checkpoint_id=f"{argument['directory']}/dcp")
    outcomes = {"went on": go_on(module, optimizer)}
    for name in ("shards", "whole", "dcp"):
        fresh = model(torch.bfloat16)
        loaded = optimizer_of(fresh)
        load(loaded, name, argument["directory"], rank)
        outcomes[name] = go_on(fresh, loaded)
    return outcomes


def load(optimizer: ZeroOptimizer, name: str, directory: str, rank: int) -> None:
    """Load what `save` wrote."""
    import torch.distributed.checkpoint as checkpoint

    if name == "dcp":
        state = optimizer.sharded_state_dict()
        checkpoint.load(state, checkpoint_id=f"{directory}/dcp")
        optimizer.load_sharded_state_dict(state)
        return
    path = f"{directory}/whole.pt" if name == "whole" else f"{directory}/shards-{rank}.pt"
    optimizer.load_state_dict(torch.load(path))


def load_elsewhere(rank: int, ranks: int, argument: dict[str, str]) -> dict[str, Any]:
    """Load on another number of ranks; return what the whole state is then."""
    result: dict[str, Any] = {}
    saved = torch.load(f"{argument['directory']}/whole.pt")
    for name in ("whole", "dcp"):
        module = model(torch.bfloat16)
        optimizer = optimizer_of(module)
        load(optimizer, name, argument["directory"], rank)
        whole = optimizer.full_state_dict()
        same = [torch.equal(saved["masters"][i], whole["masters"][i]) for i in saved["masters"]]
        for index, state in saved["state"].items():
            same += [torch.equal(state[key], whole["state"][index][key]) for key in state]
        same += [
            torch.equal(p.detach().cpu(), whole["masters"][i].to(torch.bfloat16))
            for i, p in enumerate(optimizer_order(module))
        ]
        result[name] = same
    try:
        load(optimizer_of(model(torch.bfloat16)), "shards", argument["directory"], 0)
    except UsageError:
        result["shards"] = "refused"
    plain_module = model(torch.bfloat16).float()
    plain = torch.optim.AdamW(optimizer_groups(plain_module), lr=1e-2)
    plain.load_state_dict(saved)
    result["plain"] = len(plain.state)
    return result


def optimizer_order(module: nn.Module) -> list[nn.Parameter]:
    """Parameters as torch numbers them."""
    return [p for group in optimizer_groups(module) for p in group["params"]]
