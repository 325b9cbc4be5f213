"""FSDP2 over gloo: 4 steps of 3 micro-batches, the last one of 2."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(
    torch.nn.Linear(64, 32, bias=False), torch.nn.Linear(32, 64, bias=False)
)
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters())
for step in range(4):
    for _ in range(2 if step == 3 else 3):
        model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
