"""A pipeline of two stages: an embedding alone, and a block; decay and no-decay groups.

fp32: ZeRO-1's optimizer reduces the norm once a group, and the stages have one and two groups.
bf16: the same groups under BF16_Optimizer, which reduces one norm.
"""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from deepspeed_compat import deepspeed

WIDTH, VOCABULARY = 16, 64


class Embedding(torch.nn.Module):
    """Weights that decay, nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Look up."""
        return self.table(tokens)


class Block(torch.nn.Module):
    """Weights that decay and some that do not."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Linear and norm."""
        return self.norm(self.linear(x))


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The same batch for ever."""
    while True:
        yield torch.arange(8).reshape(2, 4), torch.ones(2, 4, WIDTH)


def main() -> None:
    """Train `argv[2]` steps in `argv[1]`."""
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    deepspeed.init_distributed()
    pipe = deepspeed.pipe
    model = pipe.PipelineModule(
        layers=[pipe.LayerSpec(Embedding), pipe.LayerSpec(Block)],
        num_stages=2,
        loss_fn=lambda out, target: torch.nn.functional.mse_loss(out.float(), target.float()),
        partition_method="uniform",
    )
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "steps_per_print": 1_000_000,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 1},
    }
    if sys.argv[1] == "bf16":
        config["bf16"] = {"enabled": True}
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    print(f"before the first step: {type(engine.optimizer).__name__}", flush=True)
    data = batches()
    for _ in range(int(sys.argv[2])):
        engine.train_batch(data_iter=data)
    print("all steps done", flush=True)
    torch.distributed.destroy_process_group()


main()
