"""Makes one engine and trains a step: initialize.py '{"stage": 3}' gives zero_optimization."""

from __future__ import annotations

import json
import sys

import deepspeed
import torch

model = torch.nn.Linear(8, 8)
engine, _, _, _ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.AdamW(model.parameters()),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": json.loads(sys.argv[1]),
    },
)
loss = engine(torch.ones(1, 8, device=engine.device, dtype=torch.bfloat16)).sum()
engine.backward(loss)
engine.step()
print("trained")
