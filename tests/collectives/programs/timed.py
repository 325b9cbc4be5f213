"""Collectives between two events of the program's own; prints the times between those.

Every event is on the stream of a synchronous call, so the call lies between its two events.
"""

import itertools
import json
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
part = torch.ones(1 << 18, device="cuda")
whole = torch.empty((1 << 18) * world, device="cuda")
events = []


def between(name: str) -> None:
    """Mark the stream."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    events.append((name, event))


between("")
for _ in range(3):
    dist.all_reduce(part)
    between("all_reduce")
dist.all_gather_into_tensor(whole, part)
between("all_gather_into_tensor")
dist.reduce_scatter_tensor(part, whole)
between("reduce_scatter_tensor")
dist.broadcast(part, 1)
between("broadcast")
# Of different sizes: NCCL makes one broadcast for each rank of it.
dist.all_gather(
    [torch.empty(4 + r, device="cuda") for r in range(world)], torch.ones(4 + rank, device="cuda")
)
between("all_gather")
dist.all_reduce(part, async_op=True).wait()
ends = (
    dist.P2POp(dist.isend, part, (rank + 1) % world),
    dist.P2POp(dist.irecv, whole[: part.numel()], (rank - 1) % world),
)
for work in dist.batch_isend_irecv(list(ends)):
    work.wait()
torch.cuda.synchronize()
pairs = itertools.pairwise(events)
print("TIMES", json.dumps([(name, a.elapsed_time(b)) for (_, a), (name, b) in pairs]), flush=True)
dist.destroy_process_group()
