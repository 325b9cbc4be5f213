"""What two ranks must compute, in plain torch on the CPU: no DeepSpeed, no streams, no detector."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import tiny_transformer

LEARNING_RATE = 1e-2


def losses_of_rank_zero(
    *, ranks: int, steps: int, layers: int, width: int, seed: int
) -> list[float]:
    """Train on every rank's shard with the mean of their gradients; return rank 0's losses."""
    model = tiny_transformer.build_model(layers=layers, width=width, seed=seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(ranks):
            tokens = tiny_transformer.tokens_for(step=step, rank=rank, seed=seed)
            loss = model(tokens)
            (loss / ranks).backward()  # gradients add up to the mean over ranks
            if rank == 0:
                losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return losses


if __name__ == "__main__":
    # A process of its own: torch must be loaded on the virtual GPU's libraries or not at all.
    ranks, steps, layers, width, seed = map(int, sys.argv[1:])
    print(losses_of_rank_zero(ranks=ranks, steps=steps, layers=layers, width=width, seed=seed))
