"""Collectives of torch.distributed, and calls of NCCL that reach it around the preloaded library.

They are found by dlsym and made on a communicator of the program's own, as CuPy does it.
"""

import ctypes
import os

import torch
import torch.distributed as dist

FLOAT32, SUM = 7, 0
rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
nccl = ctypes.CDLL("libnccl.so.2")


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("internal", ctypes.c_byte * 128),)


def check(result: int) -> None:
    """NCCL must have done it."""
    assert result == 0, result


store = dist.distributed_c10d._get_default_store()
unique_id = UniqueId()
if rank == 0:
    check(nccl.ncclGetUniqueId(ctypes.byref(unique_id)))
    store.set("id", bytes(unique_id))
unique_id = UniqueId.from_buffer_copy(store.get("id"))
comm = ctypes.c_void_p()
check(nccl.ncclCommInitRank(ctypes.byref(comm), world, unique_id, rank))

side = torch.cuda.Stream()
stream = ctypes.c_void_p(side.cuda_stream)
data = torch.ones(64, device="cuda")
gathered = torch.ones(64 * world, device="cuda")
pointer, into = ctypes.c_void_p(data.data_ptr()), ctypes.c_void_p(gathered.data_ptr())
count = ctypes.c_size_t

dist.all_reduce(data)
side.wait_stream(torch.cuda.current_stream())
for _ in range(3):
    check(nccl.ncclAllReduce(pointer, pointer, count(64), FLOAT32, SUM, comm, stream))
torch.cuda.current_stream().wait_stream(side)
dist.broadcast(data, 1)
side.wait_stream(torch.cuda.current_stream())
check(nccl.ncclBroadcast(pointer, pointer, count(16), FLOAT32, 1, comm, stream))
check(nccl.ncclAllGather(pointer, into, count(64), FLOAT32, comm, stream))
peer = (rank + 1) % world
check(nccl.ncclGroupStart())
check(nccl.ncclSend(pointer, count(8), FLOAT32, peer, comm, stream))
check(nccl.ncclRecv(into, count(8), FLOAT32, (rank - 1) % world, comm, stream))
check(nccl.ncclGroupEnd())
torch.cuda.current_stream().wait_stream(side)
works = dist.batch_isend_irecv(
    [
        dist.P2POp(dist.isend, data, peer),
        dist.P2POp(dist.irecv, gathered[:64], (rank - 1) % world),
    ]
)
for work in works:
    work.wait()
with dist._coalescing_manager(device=torch.device("cuda"), async_ops=False):
    dist.all_reduce(data)
    dist.all_reduce(gathered)
dist.barrier()
torch.cuda.synchronize()
print(f"rank {rank} used", data.data_ptr(), gathered.data_ptr(), side.cuda_stream, flush=True)
check(nccl.ncclCommDestroy(comm))
dist.destroy_process_group()
