"""Train a tiny transformer with DeepSpeed ZeRO and communication overlapped with backward.

Nothing here knows streamguard. Run it on GPUs or on streamguard's virtual ones:

    streamguard run -- torchrun --nproc_per_node 2 examples/train_zero2.py
    streamguard run --vgpu 2 -- torchrun --nproc_per_node 2 examples/train_zero2.py

It runs under whichever DeepSpeed is importable, from 0.9.5 to the newest.
"""

import argparse
import logging
import os
from typing import Any

import tiny_transformer
import torch
from deepspeed_compat import deepspeed

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LEARNING_RATE = 1e-2


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=int, choices=(1, 2, 3), default=2, help="ZeRO stage")
    parser.add_argument(
        "--scenario",
        choices=("plain", "oversize", "producers"),
        default="plain",
        help="plain: several buckets per step; oversize: some gradients are larger than a bucket; "
        "producers: the feed-forward parts, and so their gradients, run on a second stream",
    )
    parser.add_argument("--bucket", type=int, help="elements per bucket; the default fits --width")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-overlap", action="store_true", help="overlap_comm off")
    parser.add_argument("--no-reduce-scatter", action="store_true", help="reduce_scatter off")
    parser.add_argument(
        "--gather-all", action="store_true", help="ZeRO-3: keep no small parameter on every rank"
    )
    parser.add_argument(
        "--no-throughput-sync",
        action="store_true",
        help="let DeepSpeed's throughput timer not synchronize the device after every step",
    )
    parser.add_argument(
        "--batches-first",
        action="store_true",
        help="copy all batches to the device before the first step: a copy waits for the device",
    )
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bf16")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=32, help="a multiple of 4")
    parser.add_argument("--local_rank", type=int, help=argparse.SUPPRESS)  # set by old launchers
    arguments = parser.parse_args()
    for name in ("bucket", "steps", "layers", "width"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            parser.error(f"--{name} {value}: expected at least 1")
    if arguments.width % 4:
        parser.error(f"--width {arguments.width}: expected a multiple of 4, one part per head")
    return arguments


def default_bucket(arguments: argparse.Namespace) -> int:
    """Return a bucket size that makes several buckets fill per step.

    The largest weights of a block have 4 * width**2 elements. `oversize` stays below that. With
    `producers` the bias behind such a weight no longer fits, so that a bucket is flushed from one
    stream right before the other stream fills the next.
    """
    square = arguments.width * arguments.width
    return {"plain": 5 * square, "oversize": 2 * square, "producers": 4 * square + 4}[
        arguments.scenario
    ]


def deepspeed_config(arguments: argparse.Namespace) -> dict[str, Any]:
    bucket = arguments.bucket or default_bucket(arguments)
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": tiny_transformer.BATCH,
        "steps_per_print": 1_000_000,
        "gradient_clipping": 1.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {
            "stage": arguments.stage,
            "overlap_comm": not arguments.no_overlap,
            "contiguous_gradients": True,
            "reduce_scatter": not arguments.no_reduce_scatter,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
        },
    }
    if arguments.gather_all:
        config["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    if arguments.no_throughput_sync:
        config["timers"] = {"throughput": {"enabled": True, "synchronized": False}}
    if arguments.dtype != "fp32":
        config[arguments.dtype] = {"enabled": True}
    return config


def train(arguments: argparse.Namespace) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return the trained model and this rank's loss of every step."""
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    rank = int(os.environ.get("RANK", "0"))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    model = tiny_transformer.build_model(
        layers=arguments.layers, width=arguments.width, seed=arguments.seed
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=optimizer, config=deepspeed_config(arguments)
    )
    if arguments.scenario == "producers":
        model.side_stream = torch.cuda.Stream()

    batches = (
        tiny_transformer.tokens_for(step=step, rank=rank, seed=arguments.seed).to(engine.device)
        for step in range(arguments.steps)
    )
    if arguments.batches_first:
        batches = iter(list(batches))
    losses = []
    for tokens in batches:
        loss = engine(tokens)
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    return engine.module, torch.stack(losses).float()


def main() -> None:
    _, losses = train(parse_arguments())
    # Read once at the end: a read per step would wait for the GPU and order what should overlap.
    values = losses.tolist()
    if torch.distributed.get_rank() == 0:
        print(f"losses: {values}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
