"""A GPT-NeoX-like model of 19M parameters under DeepSpeed, with the field report's configuration.

Three steps, fp16 as there; decay and no-decay groups as GPT-NeoX makes them. `--comms-logger`
prints what DeepSpeed's own logger counted, as one line of JSON.
"""

import argparse
import json
import logging
import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from deepspeed_compat import deepspeed

HIDDEN, LAYERS, VOCABULARY, SEQUENCE = 512, 6, 128, 8


class Block(torch.nn.Module):
    """Attention and feed-forward in parallel, as in GPT-NeoX."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = torch.nn.LayerNorm(HIDDEN)
        self.mlp_norm = torch.nn.LayerNorm(HIDDEN)
        self.query_key_value = torch.nn.Linear(HIDDEN, 3 * HIDDEN)
        self.dense = torch.nn.Linear(HIDDEN, HIDDEN)
        self.up = torch.nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = torch.nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Residual block; a mean over values stands for attention, which has no parameters."""
        query, key, value = self.query_key_value(self.attention_norm(x)).chunk(3, dim=-1)
        attended = self.dense(query * key + value)
        return x + attended + self.down(torch.relu(self.up(self.mlp_norm(x))))


class Model(torch.nn.Module):
    """Embedding, blocks, final norm and output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.LayerNorm(HIDDEN)
        self.output = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Mean square of the logits: a loss that needs no labels."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x)).float().pow(2).mean()


def batch(step: int) -> torch.Tensor:
    """Tokens on the device."""
    return torch.arange(SEQUENCE).add(step).remainder(VOCABULARY).unsqueeze(0).cuda()


def train_with_own_reducer(model: torch.nn.Module, steps: int) -> None:
    """The same with streamguard.zero instead of DeepSpeed."""
    from streamguard.zero import ZeroOptimizer

    torch.distributed.init_process_group("nccl")
    model = model.cuda().half()
    optimizer = ZeroOptimizer(model, torch.optim.Adam, max_norm=1.0, loss_scale=256.0, lr=1e-4)
    for step in range(steps):
        optimizer.backward(model(batch(step)))
        optimizer.step()
    torch.distributed.destroy_process_group()


def main() -> None:
    """Train for a few steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=int, required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--comms-logger", action="store_true")
    parser.add_argument("--own-reducer", action="store_true")
    arguments = parser.parse_args()
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = Model()
    decay = [p for p in model.parameters() if p.dim() > 1]
    no_decay = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.Adam(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}], lr=1e-4
    )
    if arguments.own_reducer:
        return train_with_own_reducer(model, arguments.steps)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 1.0,
        "steps_per_print": 1_000_000,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "fp16": {"enabled": True, "initial_scale_power": 8},
        "zero_optimization": {
            "stage": arguments.stage,
            "allgather_partitions": True,
            "allgather_bucket_size": 500_000_000,
            "overlap_comm": True,
            "reduce_scatter": True,
            "reduce_bucket_size": 500_000_000,
            "contiguous_gradients": True,
            "round_robin_gradients": True,
        },
    }
    if arguments.stage == 3:
        # Its buffers are allocated whole; 19M parameters fit into one bucket of this size.
        config["zero_optimization"]["reduce_bucket_size"] = 20_000_000
        config["zero_optimization"]["stage3_prefetch_bucket_size"] = 20_000_000
    if arguments.comms_logger:
        config["comms_logger"] = {"enabled": True, "verbose": False, "prof_all": True}
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for step in range(arguments.steps):
        loss = engine(batch(step))
        engine.backward(loss)
        engine.step()
    if arguments.comms_logger and torch.distributed.get_rank() == 0:
        from deepspeed.comm import comm

        counted = {
            name: {str(size): values[0] for size, values in sizes.items()}
            for name, sizes in comm.comms_logger.comms_dict.items()
        }
        print("comms_logger: " + json.dumps(counted), flush=True)
    torch.distributed.destroy_process_group()


main()
