"""NCCL's C interface for several ranks without torch: ranks are forks of one program.

Runs inside the programs that `run_vgpu` starts. The parent is rank 0; `run_ranks` ends the others.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from collections.abc import Callable

from raw_cuda import Pointer, ok

nccl = ctypes.CDLL("libnccl.so.2")

UINT8, FLOAT32 = 1, 7
SUM = 0


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("internal", ctypes.c_char * 128),)


def new_id() -> UniqueId:
    """A new communicator's identity."""
    unique_id = UniqueId()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique_id)) == 0
    return unique_id


def join(unique_id: UniqueId, world: int, rank: int) -> Pointer:
    """Join a communicator on the current device; returns when all ranks have."""
    comm = Pointer()
    assert nccl.ncclCommInitRank(ctypes.byref(comm), world, unique_id, rank) == 0
    return comm


def all_reduce(comm: Pointer, data: Pointer, stream: object, n: int = 1) -> int:
    """Sum n floats in place."""
    count = ctypes.c_size_t(n)
    return int(nccl.ncclAllReduce(data, data, count, FLOAT32, SUM, comm, stream))


def leave(comm: Pointer) -> None:
    """ncclCommDestroy."""
    assert nccl.ncclCommDestroy(comm) == 0


def run_ranks(world: int, body: Callable[[int], None]) -> list[int]:
    """Run `body(rank)` in `world` processes; exit statuses of ranks 1 and up.

    Only ids may exist before: a fork has none of its parent's threads.
    """
    children = []
    for rank in range(1, world):
        child = os.fork()
        if child == 0:
            _end(lambda rank=rank: body(rank))
        children.append(child)
    body(0)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _end(body: Callable[[], None]) -> None:
    status = 0
    try:
        body()
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def say(*values: object) -> None:
    """Print a line in one piece: ranks share standard output."""
    os.write(1, (" ".join(map(str, values)) + "\n").encode())


def set_device(device: int) -> None:
    """cudaSetDevice."""
    ok("cudaSetDevice", device)
