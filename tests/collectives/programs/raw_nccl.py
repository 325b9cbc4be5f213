"""Two collectives of torch.distributed and, if asked to, three calls of NCCL that go around it."""

import os
import sys

import torch
import torch.cuda.nccl
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
tensor = torch.ones(64, device="cuda")
dist.all_reduce(tensor)
dist.broadcast(tensor, 0)
dist.barrier()
if sys.argv[1] == "raw":
    torch.cuda.nccl.all_reduce([tensor])
    torch.cuda.nccl.all_reduce([tensor])
    torch.cuda.nccl.broadcast([tensor])
torch.cuda.synchronize()
dist.destroy_process_group()
