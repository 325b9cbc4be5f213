"""A rank that sends itself a message by NCCL's own functions, found by dlsym."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile

import torch
import torch.distributed as dist

FLOAT32 = 7


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("internal", ctypes.c_byte * 128),)


store = os.path.join(tempfile.mkdtemp(), "store")  # noqa: PTH118 - a program, not the library
dist.init_process_group("nccl", init_method=f"file://{store}", rank=0, world_size=1)
source = torch.ones(16, device="cuda")
target = torch.zeros(16, device="cuda")
dist.all_reduce(source)
nccl = ctypes.CDLL("libnccl.so.2")
unique_id, comm = UniqueId(), ctypes.c_void_p()
stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
count = ctypes.c_size_t(16)
answers = [
    nccl.ncclGetUniqueId(ctypes.byref(unique_id)),
    nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique_id, 0),
    nccl.ncclGroupStart(),
    nccl.ncclSend(ctypes.c_void_p(source.data_ptr()), count, FLOAT32, 0, comm, stream),
    nccl.ncclRecv(ctypes.c_void_p(target.data_ptr()), count, FLOAT32, 0, comm, stream),
    nccl.ncclGroupEnd(),
]
torch.cuda.synchronize()
nccl.ncclCommDestroy(comm)
dist.destroy_process_group()
used = {"source": source.data_ptr(), "target": target.data_ptr()}
print(json.dumps({"answers": answers, **used}))
