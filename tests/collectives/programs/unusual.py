"""Correct and unusual uses of torch.distributed: unusual.py BACKEND. Any number of ranks from 2."""

import os
import sys
import threading

import torch
import torch.distributed as dist

BACKEND = sys.argv[1]
device = torch.device("cpu")
if BACKEND == "nccl":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
dist.init_process_group(BACKEND)
rank, world = dist.get_rank(), dist.get_world_size()
evens = dist.new_group(list(range(0, world, 2)), group_desc="evens")
ends = dist.new_group([world - 1, 0], use_local_synchronization=False)
alone = dist.new_group([rank], use_local_synchronization=True)
lent = [dist.new_group(list(range(world))) for _ in range(2)]


def full(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor to communicate."""
    return torch.ones(*sizes, dtype=dtype, device=device)


# Groups of some ranks only, in an order of each rank's own.
dist.all_reduce(full(3), group=alone)
if rank % 2 == 0:
    for _ in range(rank + 1):
        dist.all_reduce(full(rank + 1), group=alone)
    dist.broadcast(full(8), 0, group=evens)
if rank in (0, world - 1):
    dist.all_reduce(full(2), group=ends)
# Objects: pickles of unequal length.
objects: list[object] = [None] * world
dist.all_gather_object(objects, {"rank": "x" * 10 * (rank + 1)})
shared = [list(range(50))] if rank == 0 else [None]
dist.broadcast_object_list(shared, 0)
# Sizes of each rank's own.
sent = [(rank + other) % 3 + 1 for other in range(world)]
received = [(other + rank) % 3 + 1 for other in range(world)]
dist.all_to_all_single(full(sum(received), 2), full(sum(sent), 2), received, sent)
if BACKEND == "nccl":
    dist.all_gather([full(other + 1) for other in range(world)], full(rank + 1))
dist.all_gather([full(2) for _ in range(world)], full(2))
if BACKEND == "gloo":
    parts = [full(4) for _ in range(world)] if rank == 1 else None
    dist.gather(full(4), parts, dst=1)
    dist.scatter(full(4), [full(4) for _ in range(world)] if rank == 0 else None, src=0)
# Empty and scalar tensors, another layout of the same bytes.
dist.all_reduce(full(0))
dist.all_reduce(torch.tensor(1.0, device=device))
dist.all_reduce(full(4, 6) if rank else full(24))
# Messages that cross, several at once, tags, and one to oneself's neighbour by both forms.
right, left = (rank + 1) % world, (rank - 1) % world
works = [dist.isend(full(5), right, tag=0), dist.irecv(full(5), left, tag=0)] if (
    BACKEND == "gloo"
) else dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, full(5), right), dist.P2POp(dist.irecv, full(5), left)]
)  # fmt: skip
for work in works:
    work.wait()
# Two threads, each with a group of its own; how they alternate differs between ranks.


def reduce_often(group: dist.ProcessGroup) -> None:
    """Use one group from one thread."""
    for _ in range(20):
        dist.all_reduce(full(7), group=group)


threads = [threading.Thread(target=reduce_often, args=(group,)) for group in lent]
if BACKEND == "gloo":
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
with dist._coalescing_manager(async_ops=False):
    dist.all_reduce(full(3))
    dist.all_reduce(full(4))
for _ in range(rank):
    full(1) + 1  # ranks differ where nothing is communicated
dist.barrier()
if BACKEND == "gloo":
    dist.monitored_barrier()
# Made again: the same names, other communicators.
dist.destroy_process_group()
os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
dist.init_process_group(BACKEND)
dist.all_reduce(full(9))
dist.barrier()
print("END", flush=True)
dist.destroy_process_group()
