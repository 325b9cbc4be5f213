"""One rank's asynchronous all-reduce, read with or without `wait`: one_rank.py waits|races."""

from __future__ import annotations

import os
import sys
import tempfile

import torch
import torch.distributed as dist

store = os.path.join(tempfile.mkdtemp(), "store")  # noqa: PTH118 - a program, not the library
dist.init_process_group("nccl", init_method=f"file://{store}", rank=0, world_size=1)
x = torch.ones(1024, device="cuda")
work = dist.all_reduce(x, async_op=True)
if sys.argv[1] == "waits":
    work.wait()
x + 1
torch.cuda.synchronize()
dist.destroy_process_group()
print([])
