"""Train with and without overlap in the configuration of gpt-neox issue 1004, scaled down.

`overlap_loss.py` runs this under several releases of DeepSpeed and draws what it prints: one line
of JSON for each training run. Nothing here knows streamguard, except `--reducer own`, which trains
with `streamguard.zero.ZeroOptimizer` instead of DeepSpeed.
"""

import argparse
import json
import logging
import os
from collections.abc import Callable

import tiny_transformer
import torch
from torch import nn

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
LAYERS = 4
WIDTH = 32
# The report had 5e8, which its 80 layers filled several times a step; 5120 is filled six times.
BUCKET = 5 * WIDTH * WIDTH
ADAM = {"lr": 6e-4, "betas": (0.9, 0.95), "eps": 1e-6, "weight_decay": 0.2}
LOSS_SCALE = {
    "loss_scale": 0,  # dynamic
    "initial_scale_power": 12,
    "loss_scale_window": 1000,
    "hysteresis": 2,
    "min_loss_scale": 1,
}
CLIPPING = 1.0

TrainingStep = Callable[[torch.Tensor], torch.Tensor]


def deepspeed_config(dtype: str, *, overlap: bool) -> dict[str, object]:
    return {
        "train_micro_batch_size_per_gpu": tiny_transformer.BATCH,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": CLIPPING,
        "steps_per_print": 1_000_000,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {
            "stage": 2,
            "overlap_comm": overlap,
            "contiguous_gradients": True,
            "reduce_scatter": True,
            "allgather_partitions": True,
            "reduce_bucket_size": BUCKET,
            "allgather_bucket_size": BUCKET,
        },
        dtype: {"enabled": True, **(LOSS_SCALE if dtype == "fp16" else {})},
    }


def deepspeed_step(model: nn.Module, dtype: str, *, overlap: bool) -> TrainingStep:
    from deepspeed_compat import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    engine, _, _, _ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), **ADAM),
        config=deepspeed_config(dtype, overlap=overlap),
    )

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss = engine(tokens)
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return step


def own_step(model: nn.Module, dtype: str, *, overlap: bool) -> TrainingStep:
    from streamguard.zero import LossScale, ZeroOptimizer

    model.to(device="cuda", dtype=DTYPES[dtype])
    scale = LossScale(2.0 ** LOSS_SCALE["initial_scale_power"], LOSS_SCALE["loss_scale_window"])
    optimizer = ZeroOptimizer(
        model,
        torch.optim.AdamW,
        stage=2,
        bucket_bytes=BUCKET * 2,
        max_norm=CLIPPING,
        loss_scale=scale if dtype == "fp16" else None,
        overlap=overlap,
        **ADAM,
    )

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss = model(tokens)
        optimizer.backward(loss)
        optimizer.step()
        return loss.detach()

    return step


def train(step: TrainingStep, *, steps: int, seed: int) -> list[float]:
    rank = torch.distributed.get_rank()
    losses = []
    for index in range(steps):
        # Four batches in turn, so that there is something to learn and the loss falls.
        tokens = tiny_transformer.tokens_for(step=index % 4, rank=rank, seed=seed)
        losses.append(step(tokens.cuda()))
    # Read once at the end: a read per step would wait for the GPU and order what should overlap.
    return torch.stack(losses).float().tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reducer", choices=("deepspeed", "own"), default="deepspeed")
    parser.add_argument("--dtypes", nargs="+", choices=sorted(DTYPES), default=sorted(DTYPES))
    parser.add_argument("--overlap", nargs="+", choices=("off", "on"), default=("off", "on"))
    parser.add_argument("--local_rank", type=int, help=argparse.SUPPRESS)  # set by old launchers
    arguments = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    build = own_step if arguments.reducer == "own" else deepspeed_step
    for dtype in arguments.dtypes:
        for overlap in arguments.overlap:
            model = tiny_transformer.build_model(layers=LAYERS, width=WIDTH, seed=arguments.seed)
            step = build(model, dtype, overlap=overlap == "on")
            losses = train(step, steps=arguments.steps, seed=arguments.seed)
            if torch.distributed.get_rank() == 0:
                record = {"dtype": dtype, "overlap": overlap, "losses": losses}
                print(f"result: {json.dumps(record)}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
