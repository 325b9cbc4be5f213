"""A training in which the newest DeepSpeed races; one rank of it, for `verify-reducer`.

Layers run on the caller's stream and another one in turn, so that the streams change right after
a bucket was flushed; some gradients are larger than a bucket. It takes two ranks: DeepSpeed runs
the hooks of the gradients that a rank owns on the stream on which it was initialised.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import deepspeed
import torch
from torch import nn

from streamguard.api import watch
from streamguard.deepspeed.adapter import register_import_hooks as name_buffers
from streamguard.deepspeed.repair.bucket_order import BucketOrder
from streamguard.deepspeed.repair.install import register_import_hooks as repair_reducer
from streamguard.verify.watched import coverage_of

if TYPE_CHECKING:
    from torch import Tensor

    from streamguard.report.model import Finding
    from streamguard.session import Session

STEPS = 3
_WIDTH = 12
_BLOCKS = 6
_BATCH = 3
# Elements. The last gradient of a block flushes the bucket and leaves room for the first one of the
# next block, which comes from the other stream. The weights of the wide layer do not fit.
_BUCKET = 330
_ELEMENT_BYTES = 2  # bfloat16


class Model(nn.Module):  # type: ignore[misc]  # torch is not followed
    """Residual blocks, every second one on a stream of its own where there is one."""

    def __init__(self, side_stream: torch.cuda.Stream | None) -> None:
        super().__init__()
        self.side_stream = side_stream
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(_WIDTH, 2 * _WIDTH), nn.Tanh(), nn.Linear(2 * _WIDTH, _WIDTH))
            for _ in range(_BLOCKS)
        )
        self.blocks[-1] = nn.Sequential(
            nn.Linear(_WIDTH, 4 * _WIDTH), nn.Tanh(), nn.Linear(4 * _WIDTH, _WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean square of the output; x has shape [batch, width]."""
        for index, block in enumerate(self.blocks):
            x = x + (self._beside(block, x) if index % 2 and self.side_stream else block(x))
        return x.square().mean()

    def _beside(self, block: nn.Module, x: Tensor) -> Tensor:
        caller = torch.cuda.current_stream()
        assert self.side_stream is not None
        self.side_stream.wait_stream(caller)
        with torch.cuda.stream(self.side_stream):
            x.record_stream(self.side_stream)
            out = block(x)
        caller.wait_stream(self.side_stream)
        out.record_stream(caller)
        return out


def train(rank: int, ranks: int, argument: Mapping[str, object]) -> dict[str, object]:
    """Train with DeepSpeed's own reducer and return what `Subject` asks for."""
    return _train(rank, ranks, argument)


def train_repaired(rank: int, ranks: int, argument: Mapping[str, object]) -> dict[str, object]:
    """Train with the repaired reducer, less the edge `without`."""
    if argument["without"] is not None:
        setattr(BucketOrder, str(argument["without"]), lambda *_: None)
    repair_reducer()
    return _train(rank, ranks, argument)


def _train(rank: int, ranks: int, argument: Mapping[str, object]) -> dict[str, object]:
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    torch.manual_seed(0)
    overlap = bool(argument["overlap"])
    with watch() if argument["watch"] else nullcontext() as session:
        if session is not None:
            name_buffers()
        # The reference runs on one stream: nothing in it depends on an order between streams.
        model = Model(torch.cuda.Stream() if overlap else None)
        engine, _, _, _ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
            config=_config(overlap=overlap),
        )
        result = _steps(rank, engine)
        torch.cuda.synchronize()
    elements = sum(parameter.numel() for parameter in model.parameters())
    partition = int(engine.optimizer.partition_size[0])
    buffers = 2 if overlap else 1
    return {
        **result,
        "gradient_bytes": _ELEMENT_BYTES * elements,
        "parameter_bytes": _ELEMENT_BYTES * elements,
        "padding_bytes": _ELEMENT_BYTES * (partition * ranks - elements),
        "memory": {
            "slots": buffers * _BUCKET * _ELEMENT_BYTES,
            "shards": partition * _ELEMENT_BYTES,
            "deferred_peak": 0,
            "bound": (partition + buffers * _BUCKET) * _ELEMENT_BYTES,
        },
        **_watched(session),
    }


def _config(*, overlap: bool) -> dict[str, object]:
    return {
        "train_micro_batch_size_per_gpu": _BATCH,
        "gradient_clipping": 1.0,
        "steps_per_print": 1_000_000,
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 2,
            "overlap_comm": overlap,
            "contiguous_gradients": True,
            "reduce_scatter": False,
            "reduce_bucket_size": _BUCKET,
            "allgather_bucket_size": 1 << 20,
        },
    }


def _steps(rank: int, engine: deepspeed.DeepSpeedEngine) -> dict[str, object]:
    losses: list[Tensor] = []
    gradients: list[Tensor] = []
    allocations = 0
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(100 * step + rank)
        batch = torch.randn(_BATCH, _WIDTH, generator=generator)
        loss = engine(batch.to("cuda", torch.bfloat16))
        engine.backward(loss)
        gradients += [g.clone() for g in engine.optimizer.averaged_gradients[0]]
        engine.step()
        losses.append(loss.detach())
        if step == 0:
            allocations = _device_allocations()
    return {
        "late_allocations": _device_allocations() - allocations,
        "losses": _digest(losses),
        "gradients": _digest(gradients),
        "parameters": _digest(parameter.detach() for parameter in engine.module.parameters()),
        "rounds": STEPS,
        "steps": STEPS,
    }


def _device_allocations() -> int:
    return int(torch.cuda.memory_stats()["num_device_alloc"])


def _digest(tensors: Iterable[Tensor]) -> str:
    """A text that differs when a bit of the tensors differs."""
    sums = hashlib.sha256()
    for tensor in tensors:
        sums.update(tensor.cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sums.hexdigest()


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
