"""A DeepSpeed training on every rank, with DeepSpeed's reducer or the own one; says what came out.

Only the own reducer gets overlap and a second producer: what it is compared with has one stream.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from torch import nn

from streamguard.api import watch
from streamguard.deepspeed.own import install as own
from streamguard.deepspeed.own.partition_reducer import PartitionReducer
from streamguard.deepspeed.repair import install as repair
from streamguard.errors import UsageError
from streamguard.verify.watched import coverage_of
from streamguard.zero import Edge

WIDTH = 16
BATCH = 3
BUCKET = 700  # elements; the wide layers of the model have 768
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Model(nn.Module):
    """Residual blocks, every second one on a stream of its own; the last shares with the first."""

    def __init__(self, side_stream: torch.cuda.Stream | None) -> None:
        super().__init__()
        self.side_stream = side_stream
        self.unused: list[int] = []
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.Tanh(), nn.Linear(3 * WIDTH, WIDTH))
            for _ in range(4)
        )
        self.blocks.append(self.blocks[0])
        self.blocks[1][0].bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mean square of the output; x has shape [batch, width]."""
        for index, block in enumerate(self.blocks):
            if index not in self.unused:
                x = x + (self._beside(block, x) if index % 2 and self.side_stream else block(x))
        return x.square().mean()

    def _beside(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        self.side_stream.wait_stream(caller)
        with torch.cuda.stream(self.side_stream):
            x.record_stream(self.side_stream)
            out = block(x)
        caller.wait_stream(self.side_stream)
        out.record_stream(caller)
        return out


def train(rank: int, ranks: int, argument: dict[str, Any]) -> dict[str, Any]:
    """Train as `argument` says.

    It has `reducer` (own, repair or None), `steps`, and optionally `dtype`, `accumulation`,
    `groups` (2: biases have no decay), `zero` and `config` (more of the configuration), `unused`
    (blocks left out, for each step), `overflow_at` (steps whose loss overflows), `load` and `save`
    (folders of checkpoints), `first` (number of the first step), `watch`, and `without` (an edge
    of the own reducer that is left out).
    """
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    if argument["reducer"] == "own":
        own.register_import_hooks()
    if argument["reducer"] == "repair":
        repair.register_import_hooks()
    if "without" in argument:
        PartitionReducer.__init__.__kwdefaults__["without_edge"] = Edge(argument["without"])
    torch.manual_seed(0)
    with watch() if argument.get("watch") else nullcontext() as session:
        engine = _engine(argument)
        result = _train(rank, engine, argument)
        torch.cuda.synchronize()
    if session is not None:
        result["findings"] = [f.code for f in session.findings()]
        result["coverage"] = coverage_of(session.coverage())
    if argument["reducer"] == "own":
        result["memory"] = own.reducer_of(engine.optimizer).memory_bytes
    result["elements"] = sum(p.numel() for p in engine.module.parameters() if p.requires_grad)
    result["partition"] = sum(int(size) for size in engine.optimizer.partition_size)
    return result


def _engine(argument: dict[str, Any]) -> deepspeed.DeepSpeedEngine:
    is_own = argument["reducer"] == "own"
    model = Model(torch.cuda.Stream() if is_own else None)
    dtype = argument.get("dtype", "bf16")
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": argument.get("accumulation", 1),
        "gradient_clipping": 0.5,
        "steps_per_print": 1_000_000,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {
            "stage": 2,
            "overlap_comm": is_own,
            "reduce_bucket_size": BUCKET,
            **argument.get("zero", {}),
        },
        **argument.get("config", {}),
    }
    if dtype == "fp16":
        config["fp16"] = {"enabled": True, "initial_scale_power": 8, "hysteresis": 1}
    elif dtype == "bf16":
        config["bf16"] = {"enabled": True}
    parameters: Any = [p for p in model.parameters() if p.requires_grad]
    if argument.get("groups", 1) == 2:
        parameters = [
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
        ]
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(parameters, lr=1e-2), config=config
    )
    if "load" in argument:
        engine.load_checkpoint(argument["load"])
    return engine


def _train(
    rank: int, engine: deepspeed.DeepSpeedEngine, argument: dict[str, Any]
) -> dict[str, Any]:
    losses, norms, scales, applied, allocations = [], [], [], [], []
    accumulation = argument.get("accumulation", 1)
    first = argument.get("first", 0)
    for step in range(first, first + argument["steps"]):
        engine.module.unused = argument.get("unused", {}).get(str(step), [])
        for micro in range(accumulation):
            generator = torch.Generator().manual_seed(1000 * step + 10 * micro + rank)
            batch = torch.randn(BATCH, WIDTH, generator=generator).to("cuda")
            loss = engine(batch.to(DTYPES[argument.get("dtype", "bf16")]))
            if step in argument.get("overflow_at", []) and rank == 0:
                loss = loss * float("inf")
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
        norms.append(torch.as_tensor(engine.get_global_grad_norm()).cpu())
        scales.append(float(engine.optimizer.loss_scale))
        applied.append(engine.was_step_applied())
        allocations.append(int(torch.cuda.memory_stats()["num_device_alloc"]))
    if "save" in argument:
        engine.save_checkpoint(argument["save"])
    return {
        "losses": [repr(loss.float().item()) for loss in losses],
        "norms": [repr(float(norm)) for norm in norms],
        "scales": scales,
        "applied": applied,
        "parameters": _digest(engine.module.parameters()),
        "masters": _digest(engine.optimizer.single_partition_of_fp32_groups),
        "left_grads": sum(p.grad is not None for p in engine.module.parameters()),
        "late_allocations": allocations[-1] - allocations[0],
    }


def _digest(tensors: Iterable[torch.Tensor]) -> str:
    sums = hashlib.sha256()
    for tensor in tensors:
        sums.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sums.hexdigest()[:16]


def convert(rank: int, ranks: int, argument: dict[str, Any]) -> str:
    """Return a digest of the whole float32 parameters that `zero_to_fp32` makes of a checkpoint."""
    whole = get_fp32_state_dict_from_zero_checkpoint(argument["folder"])
    return _digest(whole[name] for name in sorted(whole))


def raise_inside_backward(rank: int, ranks: int, argument: dict[str, Any]) -> list[str]:
    """Return what a backward says that follows one which raised half-way."""
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    own.register_import_hooks()
    torch.manual_seed(0)
    engine = _engine({"reducer": "own"})
    batch = torch.ones(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
    said = []
    for raises in (True, False):
        loss = engine(batch)

        def fail(_: torch.Tensor) -> None:
            raise RuntimeError("on purpose")

        hook = engine.module.blocks[2][0].weight.register_hook(fail) if raises else None
        try:
            engine.backward(loss)
        except (RuntimeError, UsageError) as error:
            said.append(str(error))
        if hook is not None:
            hook.remove()
    return said


def sparse_gradient(rank: int, ranks: int, argument: dict[str, Any]) -> str:
    """Return what the first backward of a sparse embedding says."""
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    own.register_import_hooks()
    model = nn.Sequential(nn.Embedding(6, WIDTH, sparse=True), nn.Linear(WIDTH, 4))
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "bf16": {"enabled": True},
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": argument["stage"]},
        },
    )
    try:
        engine.backward(engine(torch.tensor([1], device="cuda")).float().sum())
    except UsageError as error:
        return str(error)
    return "trained"
