"""Programs that use ZeroOptimizer wrongly, or in rare ways, and say what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from streamguard.errors import UsageError
from streamguard.zero import GradientReducer, ZeroOptimizer
from tests.zero.training_programs import WIDTH, batch, model, optimizer_of, train, values


def said(action: Callable[[], object]) -> str:
    """The error of an action; "" if there is none."""
    try:
        action()
    except UsageError as error:
        return str(error)
    return ""


def give_up(rank: int, ranks: int, argument: dict[str, Any]) -> dict[str, Any]:
    """Rank 0's forward raises in the second of three backwards; all give up and go on."""
    module = model()
    optimizer = optimizer_of(module)
    errors = ""
    if argument["fails"]:
        for micro in range(1 if rank == 0 else 3):
            optimizer.backward(module(batch(10 + micro, rank)).square().mean())
        if rank != 0:
            errors = said(optimizer.abandon)
        optimizer.abandon(backwards=3)
    train(module, optimizer, range(1), rank)
    return {"said": errors, "values": values(module)}


def give_up_sums(rank: int, ranks: int, argument: object) -> bool:
    """A backward, one in no_sync and an exception; whether the next step is as if neither was."""
    modules = [model(), model()]
    optimizers = [optimizer_of(module) for module in modules]
    optimizers[0].backward(modules[0](batch(10, rank)).square().mean())
    with optimizers[0].no_sync():
        optimizers[0].backward(modules[0](batch(11, rank)).square().mean())
    optimizers[0].abandon()
    for module, optimizer in zip(modules, optimizers, strict=True):
        train(module, optimizer, range(1), rank)
    return values(modules[0]) == values(modules[1])


def wrong_options(rank: int, ranks: int, argument: object) -> dict[str, str]:
    """What the constructor says of each wrong option."""
    wrong: dict[str, list[object]] = {
        "stage": ["2", 3, True],
        "ring_size": [0, 1.5, "2"],
        "bucket_bytes": [0, 25e6, "25MB"],
        "reduce_dtype": ["bf16", torch.int32],
        "master_dtype": ["fp32", torch.int64],
        "predivide": [0, math.inf, math.nan, "2"],
        "max_norm": [0, math.nan, "1"],
        "loss_scale": ["dynamic", math.inf, True, 0],
        "optimizer_class": [torch.optim.Adafactor, torch.optim.LBFGS, "AdamW"],
    }
    found = {}
    for name, values_of in wrong.items():
        for value in values_of:
            options = {"optimizer_class": torch.optim.SGD, "lr": 0.1, name: value}
            found[f"{name}={value!r}"] = said(lambda o=options: ZeroOptimizer(model(), **o))
    return found


def take_over(rank: int, ranks: int, argument: object) -> dict[str, Any]:
    """A parameter is unfrozen: the first optimizer refuses, a second one needs the first closed."""
    module, plain = model(), model()
    module[0].weight.requires_grad_(False)
    first = ZeroOptimizer(module, torch.optim.SGD, lr=0.1, overlap_gather=True)
    module[0].weight.requires_grad_(True)
    first.backward(module(batch(0, rank)).square().mean())
    errors = [said(first.step)]
    errors.append(said(lambda: ZeroOptimizer(module, torch.optim.SGD, lr=0.1)))
    errors.append(said(lambda: GradientReducer(module.parameters())))
    first.close()
    for trained in (module, plain):
        optimizer = ZeroOptimizer(trained, torch.optim.SGD, lr=0.1)
        optimizer.zero_grad()  # the unfrozen weight has a gradient of the first optimizer's time
        train(trained, optimizer, range(2), rank)
    return {"said": errors, "same": values(module) == values(plain)}


def wrong_states(rank: int, ranks: int, argument: object) -> dict[str, Any]:
    """States that belong to nothing here, or to other models; whether anything was changed."""
    module = model()
    optimizer = optimizer_of(module)
    train(module, optimizer, range(1), rank)
    before = values(module)
    wider = nn.Sequential(nn.Linear(WIDTH, 24), nn.Tanh(), nn.LayerNorm(24), nn.Linear(24, WIDTH))
    shorter = nn.Linear(WIDTH, WIDTH)
    result = {}
    for name, other in (("wider", wider.cuda()), ("shorter", shorter.cuda())):
        others = optimizer_of(other)
        train(other, others, range(1), rank)
        whole = others.full_state_dict()
        result[name] = said(lambda w=whole: optimizer.load_state_dict(w))
        without = {key: whole[key] for key in ("state", "param_groups")}
        result[f"{name}, plain"] = said(lambda w=without: optimizer.load_state_dict(w))
    result["empty"] = said(lambda: optimizer.load_state_dict({}))
    result["sharded, empty"] = said(lambda: optimizer.load_sharded_state_dict({"state": {}}))
    train(module, optimizer, range(1, 2), rank)
    twin = model()
    train(twin, optimizer_of(twin), range(2), rank)
    return {"said": result, "trained": before != values(twin) == values(module)}


class Scaled(nn.Module):
    """A linear layer and a parameter of shape []."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.linear = nn.Linear(WIDTH, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x has shape [batch, WIDTH]."""
        return self.linear(x) * self.scale


def scalar_parameter(rank: int, ranks: int, argument: object) -> bool:
    """Two steps, the whole state into another optimizer, one more: as three steps at once."""
    modules = [Scaled().cuda() for _ in range(3)]
    optimizers = [ZeroOptimizer(m, torch.optim.AdamW, lr=0.1) for m in modules]
    train(modules[0], optimizers[0], range(3), rank)
    train(modules[1], optimizers[1], range(2), rank)
    optimizers[2].load_state_dict(optimizers[1].full_state_dict())
    train(modules[2], optimizers[2], range(2, 3), rank)
    return values(modules[0]) == values(modules[2])


def saved_before_the_first_step(rank: int, ranks: int, argument: dict[str, str]) -> list[bool]:
    """Save sharded tensors at once; go on, and load them elsewhere: both as if nothing was."""
    import torch.distributed.checkpoint as checkpoint

    modules = [model() for _ in range(3)]
    optimizers = [optimizer_of(module) for module in modules]
    checkpoint.save(optimizers[1].sharded_state_dict(), checkpoint_id=argument["directory"])
    state = optimizers[2].sharded_state_dict()
    checkpoint.load(state, checkpoint_id=argument["directory"])
    optimizers[2].load_sharded_state_dict(state)
    for module, optimizer in zip(modules, optimizers, strict=True):
        train(module, optimizer, range(2), rank)
    return [values(module) == values(modules[0]) for module in modules[1:]]
