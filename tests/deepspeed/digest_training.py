"""Runs examples/train_zero2.py; prints a digest of every gradient that reached the optimizer.

The gradients are cloned where the optimizer would read them and looked at after the training, so
that nothing waits for the device earlier than without.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_zero2.py"

gradients: list[torch.Tensor] = []


def keep_gradients(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    """Clone what the optimizer is about to read."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                gradients.append(parameter.grad.detach().clone())


register_optimizer_step_pre_hook(keep_gradients)
sys.path.insert(0, str(SCRIPT.parent))
sys.argv[0] = str(SCRIPT)
runpy.run_path(str(SCRIPT), run_name="__main__")

torch.cuda.synchronize()
digest = hashlib.sha256()
for gradient in gradients:
    digest.update(gradient.contiguous().view(torch.uint8).cpu().numpy().tobytes())
rank = os.environ["RANK"]
# One write, on a line of its own: the ranks share the pipe, with whoever has not ended a line.
os.write(1, f"\ngradients of rank {rank}: {len(gradients)} {digest.hexdigest()}\n".encode())
