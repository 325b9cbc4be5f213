"""A training that needs every edge of streamguard's own reducer; one rank of it.

Gradients come from three streams in turn, buckets are far smaller than the model and only two of
them exist, two backwards are added up in a step, and each forward starts before all parameters are
gathered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import nn

from streamguard.api import watch
from streamguard.verify.watched import coverage_of
from streamguard.zero import Edge, ZeroOptimizer

if TYPE_CHECKING:
    from torch import Tensor

    from streamguard.report.model import Finding
    from streamguard.session import Session

STEPS = 2
ROUNDS = 2
RING_SIZE = 2
BUCKET_BYTES = 2048
_WIDTH = 12
_BLOCKS = 3
_BATCH = 3


class Model(nn.Module):  # type: ignore[misc]  # torch is not followed
    """Residual blocks on the caller's stream and two others, completely joined.

    One block is frozen, one shares its weights with the first, one is unused in the second step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.streams = [None, torch.cuda.Stream(), torch.cuda.Stream()]
        self.unused: int | None = None
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(_WIDTH, 2 * _WIDTH), nn.Tanh(), nn.Linear(2 * _WIDTH, _WIDTH))
            for _ in range(_BLOCKS)
        )
        self.blocks.append(nn.Linear(_WIDTH, _WIDTH).requires_grad_(False))
        self.blocks.append(self.blocks[0])

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean square of the output; x has shape [batch, width]."""
        caller = torch.cuda.current_stream()
        for index, block in enumerate(self.blocks):
            if index == self.unused:
                continue
            stream = self.streams[index % len(self.streams)] or caller
            stream.wait_stream(caller)
            with torch.cuda.stream(stream):
                x.record_stream(stream)
                out = block(x)
            caller.wait_stream(stream)
            out.record_stream(caller)
            x = x + out
        return x.square().mean()


def train(rank: int, ranks: int, argument: Mapping[str, object]) -> dict[str, object]:
    """Train and return what `Subject` asks for."""
    without = None if argument["without"] is None else Edge(argument["without"])
    torch.manual_seed(0)
    with watch() if argument["watch"] else nullcontext() as session:
        model = Model().to("cuda")
        optimizer = ZeroOptimizer(
            model,
            torch.optim.AdamW,
            lr=1e-2,
            find_unused=True,
            max_norm=1.0,
            bucket_bytes=BUCKET_BYTES,
            ring_size=RING_SIZE,
            overlap=bool(argument["overlap"]),
            overlap_gather=bool(argument["overlap"]),
            without_edge=without,
        )
        result = _train(rank, model, optimizer)
        torch.cuda.synchronize()
    return {**result, **_sizes(optimizer, ranks), **_watched(session)}


def _train(rank: int, model: Model, optimizer: ZeroOptimizer) -> dict[str, object]:
    batches = [
        torch.randn(_BATCH, _WIDTH, generator=torch.Generator().manual_seed(100 * number + rank))
        for number in range(STEPS * ROUNDS)
    ]
    on_device = [batch.to("cuda") for batch in batches]
    losses: list[Tensor] = []
    gradients: list[Tensor] = []
    allocations = 0
    for step in range(STEPS):
        model.unused = 2 if step == 1 else None
        for round_ in range(ROUNDS):
            loss = model(on_device[step * ROUNDS + round_])
            optimizer.backward(loss)
            losses.append(loss.detach())
        optimizer.reducer.wait_for_shards()
        views = [optimizer.reducer.shards.view(f) for f in optimizer.reducer.fragments]
        gradients += [view.clone() for view in views]
        optimizer.step()
        if step == 0:
            allocations = _device_allocations()
    late = _device_allocations() - allocations
    optimizer.wait_for_parameters()
    return {
        "losses": _digest(losses),
        "gradients": _digest(gradients),
        "parameters": _digest(parameter.detach() for parameter in model.parameters()),
        "rounds": STEPS * ROUNDS,
        "steps": STEPS,
        "late_allocations": late,
    }


def _device_allocations() -> int:
    """How often the caching allocator asked the device for memory so far."""
    return int(torch.cuda.memory_stats()["num_device_alloc"])


def _digest(tensors: Iterable[Tensor]) -> str:
    """A text that differs when a bit of the tensors differs."""
    sums = hashlib.sha256()
    for tensor in tensors:
        sums.update(tensor.cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sums.hexdigest()


def _sizes(optimizer: ZeroOptimizer, ranks: int) -> dict[str, object]:
    reducer = optimizer.reducer
    elements = sum(parameter.numel() for parameter in reducer.parameters)
    padding = sum(bucket.padding for bucket in reducer.layout.buckets)
    memory = reducer.memory
    return {
        "gradient_bytes": 4 * elements,
        "parameter_bytes": 4 * elements,
        "padding_bytes": 4 * padding,
        "memory": {
            "slots": memory.slots,
            "shards": memory.shards,
            "deferred_peak": memory.deferred_peak,
            "bound": 4 * (elements + padding) // ranks + RING_SIZE * reducer.layout.bucket_bytes,
        },
    }


def _watched(session: Session | None) -> dict[str, object]:
    if session is None:
        return {}
    return {
        "findings": [_text_of(finding) for finding in session.findings()],
        "coverage": coverage_of(session.coverage()),
    }


def _text_of(finding: Finding) -> str:
    first, second = finding.first, finding.second
    streams = [access.stream.name if access.stream else "host" for access in (first, second)]
    return (
        f"{finding.code}: {first.op} on {streams[0]}, then {second.op} on {streams[1]}, "
        f"{finding.count} times"
    )
