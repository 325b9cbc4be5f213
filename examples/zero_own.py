"""Train a tiny transformer with streamguard's own ZeRO-2 reducer, gradients from two streams.

    streamguard run --vgpu 2 -- torchrun --nproc_per_node 2 examples/zero_own.py
    streamguard run --vgpu 2 --schedule lazy -- torchrun --nproc_per_node 2 examples/zero_own.py
    torchrun --nproc_per_node 2 examples/zero_own.py

The losses are the same, bit by bit, under every schedule, with and without overlap.
"""

import argparse
import os

import tiny_transformer
import torch
import torch.distributed as distributed

from streamguard.zero import LossScale, ZeroOptimizer

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=int, choices=(1, 2), default=2, help="ZeRO stage")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="bf16")
    parser.add_argument("--bucket-bytes", type=int, default=16384, help="size of one bucket")
    parser.add_argument("--ring", type=int, default=2, help="buckets of stage 2 that exist at once")
    parser.add_argument("--no-overlap", action="store_true", help="reduce when backward has ended")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    rank = int(os.environ.get("RANK", "0"))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    distributed.init_process_group("nccl", device_id=device)
    dtype = DTYPES[arguments.dtype]
    model = tiny_transformer.build_model(layers=4, width=32, seed=arguments.seed).to(dtype).cuda()
    model.side_stream = torch.cuda.Stream()
    optimizer = ZeroOptimizer(
        model,
        torch.optim.AdamW,
        lr=1e-2,
        stage=arguments.stage,
        bucket_bytes=arguments.bucket_bytes,
        ring_size=arguments.ring,
        overlap=not arguments.no_overlap,
        overlap_gather=not arguments.no_overlap,
        max_norm=1.0,
        loss_scale=LossScale(1024.0) if arguments.dtype == "fp16" else None,
    )

    losses = []
    for step in range(arguments.steps):
        tokens = tiny_transformer.tokens_for(step=step, rank=rank, seed=arguments.seed)
        loss = model(tokens.cuda())
        optimizer.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    # Read once at the end: a read per step would wait for the GPU and order what should overlap.
    values = torch.stack(losses).float().tolist()
    if rank == 0:
        print(f"losses: {values}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
