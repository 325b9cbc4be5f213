"""Random models, and what their gradients must be by a plain sum in float64.

Everything about a model follows from its seed, the same on all ranks; inputs also from the rank.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as distributed
from torch import nn

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
WIDTH = 6
STEPS = 2


@dataclass(frozen=True)
class Plan:
    """One model and how it is trained."""

    blocks: tuple[tuple[int, torch.dtype, int, bool], ...]  # hidden width, dtype, stream, frozen
    ties: tuple[tuple[int, int], ...]  # block that borrows the weights of another one
    streams: int
    accumulation: int
    syncs_every_time: bool
    unused: tuple[frozenset[int], ...]  # blocks left out, for each step
    options: dict[str, Any]


def plan(seed: int) -> Plan:
    """Draw a plan."""
    draw = random.Random(seed)
    streams = draw.randint(1, 3)
    dtypes = draw.sample(DTYPES, draw.randint(1, 2))
    count = draw.randint(1, 5)
    blocks = [
        (
            draw.choice((1, 3, 8, 40)),
            draw.choice(dtypes),
            draw.randrange(streams),
            index > 0 and draw.random() < 0.15,
        )
        for index in range(count)
    ]
    ties = []
    for index in range(1, count):
        other = draw.randrange(index)
        if draw.random() < 0.3 and blocks[index][:2] == blocks[other][:2]:
            ties.append((index, other))
        elif draw.random() < 0.2:
            hidden, dtype, _, frozen = blocks[other]
            blocks[index] = (hidden, dtype, blocks[index][2], frozen)
            ties.append((index, other))
    unused = tuple(
        frozenset(i for i in range(1, count) if draw.random() < 0.2) for _ in range(STEPS)
    )
    options = {
        "stage": draw.choice((1, 2, 2, 2)),
        "ring_size": draw.randint(1, 4),
        "bucket_bytes": draw.choice((64, 200, 1000, 1 << 20)),
        "reduce_dtype": draw.choice((None, torch.float32, torch.bfloat16)),
        "predivide": draw.choice((1.0, 1.0, 2.0)),
    }
    return Plan(
        tuple(blocks),
        tuple(ties),
        streams,
        draw.randint(1, 4),
        draw.random() < 0.3,
        unused,
        options,
    )


class Model(nn.Module):
    """Residual blocks, each in its own dtype and on its own stream, completely joined."""

    def __init__(self, drawn: Plan, streams: list[torch.cuda.Stream]) -> None:
        super().__init__()
        self.plan = drawn
        self.streams = streams
        self.unused: frozenset[int] = frozenset()
        self.blocks = nn.ModuleList()
        for hidden, dtype, _, frozen in drawn.blocks:
            block = nn.Sequential(nn.Linear(WIDTH, hidden), nn.Tanh(), nn.Linear(hidden, WIDTH))
            self.blocks.append(block.to(dtype).requires_grad_(not frozen))
        for index, other in drawn.ties:
            self.blocks[index] = self.blocks[other]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a scalar in float32; x has shape [batch, WIDTH]."""
        caller = torch.cuda.current_stream()
        for index, block in enumerate(self.blocks):
            if index in self.unused:
                continue
            stream = self.streams[self.plan.blocks[index][2]]
            stream.wait_stream(caller)
            with torch.cuda.stream(stream):
                x.record_stream(stream)
                out = block(x.to(self.plan.blocks[index][1])).float()
            caller.wait_stream(stream)
            out.record_stream(caller)
            x = x + out
        return x.square().mean()


def build(seed: int) -> tuple[Plan, Model]:
    """Return a seed's model on the current device, the same on all ranks."""
    drawn = plan(seed)
    torch.manual_seed(seed)
    current = torch.cuda.current_stream()
    streams = [current] + [torch.cuda.Stream() for _ in range(drawn.streams - 1)]
    return drawn, Model(drawn, streams).to("cuda")


def batch(seed: int, step: int, micro: int, rank: int) -> torch.Tensor:
    """Return one micro-batch, shape [3, WIDTH]."""
    number = ((seed * STEPS + step) * 4 + micro) * 16 + rank
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(number)).to("cuda")


def trained(parameters: Iterable[nn.Parameter]) -> Iterator[nn.Parameter]:
    """The parameters that are not frozen."""
    return (parameter for parameter in parameters if parameter.requires_grad)


def expected_gradients(
    seed: int, step: int, model: Model, rank: int
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Mean over ranks of each parameter's gradient, and of its absolute value, in float64.

    Sums up what plain autograd gives for each micro-batch; `model` has no hooks.
    """
    model.unused = model.plan.unused[step]
    parameters = list(trained(model.parameters()))
    sums = [torch.zeros(p.shape, dtype=torch.float64) for p in parameters]
    magnitudes = [torch.zeros(p.shape, dtype=torch.float64) for p in parameters]
    for micro in range(model.plan.accumulation):
        loss = model(batch(seed, step, micro, rank))
        gradients = (
            torch.autograd.grad(loss, parameters, allow_unused=True) if loss.requires_grad else ()
        )
        for total, magnitude, gradient in zip(sums, magnitudes, gradients, strict=False):
            if gradient is not None:
                value = gradient.cpu().double()
                total += value
                magnitude += value.abs()
    world = distributed.get_world_size()
    for tensors in (sums, magnitudes):
        for tensor in tensors:
            on_device = tensor.cuda()
            distributed.all_reduce(on_device)
            tensor.copy_(on_device.cpu() / world)
    return sums, magnitudes
