"""A rank that torchrun starts anew: the first attempt races and fails, the second is right.

With `stays` the second attempt races as well, at the same lines.
"""

import os
import signal
import sys

import torch
import torch.distributed

rank = int(os.environ["RANK"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
# A store for each attempt: gloo may meet addresses of the first one in torchrun's own.
store = torch.distributed.FileStore(f"store-{attempt}", 2)
torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
torch.cuda.set_device(rank)
side_stream = torch.cuda.Stream()
values = torch.zeros(16, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side_stream):
    values.add_(1)
if attempt == 1 and "stays" not in sys.argv:
    torch.cuda.current_stream().wait_stream(side_stream)
values.mul(2)
torch.distributed.barrier()
if attempt == 0:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(1)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
