"""Train a pipeline whose last stage holds nothing but a tied embedding (DeepSpeed issue 1522).

DeepSpeed all-reduces the gradient norm once for each parameter group of a stage. The stage with
only an embedding has no group without weight decay, the other one has, so that they wait for each
other for ever. With streamguard's repair the norm is one collective, and training goes on:

    torchrun --nproc_per_node 2 examples/pipeline_embedding.py --time-limit 60
    STREAMGUARD_REDUCER=repair torchrun --nproc_per_node 2 examples/pipeline_embedding.py

Without GPUs set STREAMGUARD_VGPU=2 as well. Four ranks make two pipelines of two stages.
"""

import argparse
import faulthandler
import json
import logging
import os
from collections.abc import Iterator

import torch
from deepspeed_compat import deepspeed
from torch import nn
from torch.nn import functional

VOCABULARY = 64
SEQUENCE = 8
MICRO_BATCH = 2
MICRO_BATCHES = 2


class Embedding(nn.Module):
    """The token embedding, which the last layer uses again to make logits."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(VOCABULARY, width) * 0.1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return functional.embedding(tokens, self.weight)


def logits_of(embedding: Embedding, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, embedding.weight)


class Block(nn.Module):
    """A residual feed-forward layer: weights that decay, biases and norms that do not."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.contract(functional.gelu(self.expand(self.norm(x))))


def next_token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY).float(), targets.reshape(-1))


def build_model(width: int) -> nn.Module:
    pipe = deepspeed.pipe
    torch.manual_seed(0)
    layers = [
        pipe.TiedLayerSpec("embedding", Embedding, width),
        pipe.LayerSpec(Block, width),
        pipe.LayerSpec(Block, width),
        pipe.TiedLayerSpec("embedding", Embedding, width, forward_fn=logits_of),
    ]
    return pipe.PipelineModule(
        layers=layers, num_stages=2, loss_fn=next_token_loss, partition_method="type:embed"
    )


def decay_groups(model: nn.Module) -> list[dict[str, object]]:
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]


def batches(rank_of_pipeline: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1 + rank_of_pipeline)
    while True:
        tokens = torch.randint(VOCABULARY, (MICRO_BATCH, SEQUENCE + 1), generator=generator)
        yield tokens[:, :-1], tokens[:, 1:]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=int, choices=(0, 1), default=1, help="ZeRO stage")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="end with status 1 and every thread's place when a step takes longer",
    )
    parser.add_argument("--local_rank", type=int, help=argparse.SUPPRESS)  # set by old launchers
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    deepspeed.init_distributed()
    model = build_model(arguments.width)
    optimizer = torch.optim.AdamW(decay_groups(model), lr=1e-2)
    config = {
        "train_micro_batch_size_per_gpu": MICRO_BATCH,
        "gradient_accumulation_steps": MICRO_BATCHES,
        "gradient_clipping": 1.0,
        "steps_per_print": 1_000_000,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": arguments.stage},
    }
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    groups = len(optimizer.param_groups)
    print(f"pipeline stage {engine.stage_id}: {groups} parameter groups", flush=True)

    data = batches(engine.grid.get_data_parallel_rank())
    losses = []
    for _ in range(arguments.steps):
        if arguments.time_limit:
            faulthandler.dump_traceback_later(arguments.time_limit, exit=True)
        losses.append(float(engine.train_batch(data_iter=data)))
    faulthandler.cancel_dump_traceback_later()
    if torch.distributed.get_rank() == 0:
        print(f"losses: {json.dumps(losses)}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
