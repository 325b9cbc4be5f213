"""Mismatches, dead peers and aborts end in errors that say what happened, never in a hang."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_IMPORT = "from nccl_program import *\n"


@pytest.mark.parametrize(
    ("calls", "texts"),
    [
        (
            ("dist.all_reduce(t)", "dist.broadcast(t, 0)"),
            ("all_reduce(count=2, float32, sum)", "broadcast(count=2, float32, root=0)"),
        ),
        (
            ("dist.all_reduce(t)", "dist.all_reduce(tensor(1, 2, 3))"),
            ("all_reduce(count=2, float32, sum)", "all_reduce(count=3, float32, sum)"),
        ),
        (
            ("dist.all_reduce(t)", "dist.all_reduce(t.view(torch.int32))"),
            ("all_reduce(count=2, float32, sum)", "all_reduce(count=2, int32, sum)"),
        ),
        (
            ("dist.all_reduce(t)", "dist.all_reduce(t, dist.ReduceOp.MAX)"),
            ("all_reduce(count=2, float32, sum)", "all_reduce(count=2, float32, max)"),
        ),
        (
            # Neither waits for the other; the next collective tells.
            (
                "dist.broadcast(t, 0); dist.all_reduce(t)",
                "dist.broadcast(t, 1); dist.all_reduce(t)",
            ),
            ("broadcast(count=2, float32, root=0)", "broadcast(count=2, float32, root=1)"),
        ),
    ],
    ids=["kind", "count", "type", "reduction", "both are root"],
)
def test_a_mismatch_names_both_ranks_calls(
    run_vgpu: RunVgpu, calls: tuple[str, str], texts: tuple[str, str]
) -> None:
    """The same communicator, the same number, another call: both processes end with the reason."""
    code = (
        _IMPORT
        + f"""
start(); t = tensor(1, 2); dist.all_reduce(t); torch.cuda.synchronize()
if rank == 0: {calls[0]}
else: {calls[1]}
torch.cuda.synchronize(); print("went on")
"""
    )
    finished = run_vgpu(code, schedule="lazy", ranks=2, check=False)

    told = "".join(one.errors for one in finished)
    assert texts[0] in told
    assert texts[1] in told
    assert all(one.status != 0 for one in finished)
    assert all("went on" not in one.output for one in finished)


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_killed_peer_is_noticed(run_vgpu: RunVgpu, schedule: str) -> None:
    """A rank that died before its part fails the others with its number."""
    code = (
        _IMPORT
        + """
import os, signal
start(); t = tensor(1); dist.all_reduce(t); torch.cuda.synchronize()
if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(t); torch.cuda.synchronize(); print("went on")
"""
    )
    survivor, killed = run_vgpu(code, schedule=schedule, ranks=2, check=False)

    assert killed.status == -9
    assert survivor.status != 0
    assert "went on" not in survivor.output
    assert "rank 1 (process " in survivor.errors
    assert "waits for it in all_reduce(count=1, float32, sum)" in survivor.errors


def test_an_abort_ends_waiting_ops_without_effect(run_vgpu: RunVgpu) -> None:
    """After ncclCommAbort the stream goes on, the output is untouched, the handle is gone."""
    code = """
from raw_cuda import *
nccl = ctypes.CDLL("libnccl.so.2")
comms = (Pointer * 2)()
nccl.ncclCommInitAll(comms, 2, None)
data, s = device_memory(1), new_stream()
fill(data, 7, 1, s)
comm = Pointer(comms[0])
nccl.ncclAllReduce(data, data, ctypes.c_size_t(1), 1, 0, comm, s)
mark(s, "after"); assert nccl.ncclCommAbort(comm) == 0
sync(s); print(order, byte_at(data))
print(nccl.ncclAllReduce(data, data, ctypes.c_size_t(1), 1, 0, comm, s))
"""
    for schedule in ("eager", "lazy"):
        assert run_vgpu(code, devices=2, schedule=schedule)[0].lines == ["['after'] 7", "4"]


def test_invalid_arguments_are_refused(run_vgpu: RunVgpu) -> None:
    """Unknown communicator, type, reduction, root and peer answer ncclInvalidArgument."""
    code = """
from raw_cuda import *
nccl = ctypes.CDLL("libnccl.so.2")
comms = (Pointer * 1)()
nccl.ncclCommInitAll(comms, 1, None)
good, n, d = Pointer(comms[0]), ctypes.c_size_t(1), device_memory(8)
print(nccl.ncclAllReduce(d, d, n, 7, 0, Pointer(8), None),
      nccl.ncclAllReduce(d, d, n, 99, 0, good, None),
      nccl.ncclAllReduce(d, d, n, 7, 99, good, None),
      nccl.ncclBroadcast(d, d, n, 7, 1, good, None),
      nccl.ncclBroadcast(d, d, n, 7, -1, good, None),
      nccl.ncclSend(d, n, 7, 3, good, None),
      nccl.ncclGroupEnd(), nccl.ncclAllReduce(d, d, n, 7, 0, good, None))
"""
    assert run_vgpu(code)[0].lines == ["4 4 4 4 4 4 5 0"]
