"""When a collective reads and writes, and that waiting ranks never wait for ever."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_IMPORT = "from nccl_program import *\n"


@pytest.mark.parametrize(
    ("wait", "expected"), [("work.wait()", "3.0"), ("pass", "1.0")], ids=["waited", "not waited"]
)
def test_lazy_shows_a_collective_that_was_not_waited_for(
    run_vgpu: RunVgpu, wait: str, expected: str
) -> None:
    """A reader that skips Work.wait sees the rank's own input, on rank 0."""
    code = (
        _IMPORT
        + f"""
start()
t, result = tensor(rank + 1), torch.zeros(1, pin_memory=True)
torch.cuda.synchronize()
work = dist.all_reduce(t, async_op=True)
{wait}
result.copy_(t, non_blocking=True); torch.cuda.current_stream().synchronize()
print(result.item()); torch.cuda.synchronize(); dist.destroy_process_group()
"""
    )
    assert run_vgpu(code, schedule="lazy", ranks=2)[0].lines == [expected]


@pytest.mark.parametrize(
    ("wait", "expected"), [("work.wait()", "3.0"), ("pass", "20.0")], ids=["waited", "not waited"]
)
def test_lazy_shows_an_input_that_was_overwritten(
    run_vgpu: RunVgpu, wait: str, expected: str
) -> None:
    """An input that is overwritten before the collective was waited for reaches the sum."""
    code = (
        _IMPORT
        + f"""
start()
t, later = tensor(rank + 1), torch.full((1,), 10.0).pin_memory()
torch.cuda.synchronize()
work = dist.all_reduce(t, async_op=True)
{wait}
if {wait == "pass"}:
    t.copy_(later, non_blocking=True); torch.cuda.current_stream().synchronize()
torch.cuda.synchronize(); print(t.item()); dist.destroy_process_group()
"""
    )
    for finished in run_vgpu(code, schedule="lazy", ranks=2):
        assert finished.lines == [expected]


def test_input_is_read_at_the_start_and_output_written_at_the_end(run_vgpu: RunVgpu) -> None:
    """After a rank's start, writes to its input change no rank's result."""
    code = """
from raw_cuda import *
nccl = ctypes.CDLL("libnccl.so.2")
comms = (Pointer * 2)()
nccl.ncclCommInitAll(comms, 2, None)
data, streams = [], []
for device in range(2):
    ok("cudaSetDevice", device); data.append((device_memory(1), device_memory(1)))
    streams.append(new_stream()); fill(data[-1][0], 1 + device, 1, streams[-1]); sync(streams[-1])
def all_reduce(r):
    n = ctypes.c_size_t(1)
    nccl.ncclAllReduce(data[r][0], data[r][1], n, 1, 0, Pointer(comms[r]), streams[r])
all_reduce(0)            # eager: its start has run, its end waits for rank 1
set_byte(data[0][0], 100); print(byte_at(data[0][1]))
all_reduce(1); sync(streams[1]); sync(streams[0])
print(byte_at(data[0][1]), byte_at(data[1][1]))
"""
    assert run_vgpu(code, devices=2)[0].lines == ["0", "3 3"]


@pytest.mark.parametrize("schedule", ["eager", "lazy", "extreme:0,1", "extreme:1,0"])
def test_ranks_that_wait_in_different_groups_both_go_on(run_vgpu: RunVgpu, schedule: str) -> None:
    """Each rank waits first for the collective the other has queued and not waited for."""
    code = (
        _IMPORT
        + """
start()
groups = [dist.new_group([0, 1]) for _ in range(2)]
ts = [tensor(1), tensor(10)]
for g, t in zip(groups, ts): dist.all_reduce(t, group=g)
torch.cuda.synchronize()
for _ in range(3):
    works = [dist.all_reduce(t, group=g, async_op=True) for g, t in zip(groups, ts)]
    works[rank].wait(); torch.cuda.current_stream().synchronize()
    works[1 - rank].wait(); torch.cuda.current_stream().synchronize()
from streamguard.vgpu import describe
show("sums", *ts); print("rescues", describe().rescues); dist.destroy_process_group()
"""
    )
    for finished in run_vgpu(code, schedule=schedule, ranks=2):
        assert finished.lines == ["sums [[16.0], [160.0]]", "rescues 0"]


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_send_that_nobody_waits_for_arrives(run_vgpu: RunVgpu, schedule: str) -> None:
    """The sender waits only for the answer; the receiver only for the message."""
    code = (
        _IMPORT
        + """
start(bind_device=True); answer = empty(1)
for step in range(3):
    if rank == 0:
        sent = dist.isend(tensor(step), 1); dist.recv(answer, 1); print(answer.item())
    else:
        dist.recv(answer, 0); sent = dist.isend(tensor(answer.item() + 100), 0)
torch.cuda.synchronize(); dist.destroy_process_group()
"""
    )
    assert run_vgpu(code, schedule=schedule, ranks=2)[0].lines == ["100.0", "101.0", "102.0"]


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_wait_outside_cuda_does_not_stop_a_queued_collective(
    run_vgpu: RunVgpu, schedule: str
) -> None:
    """Rank 1 queues its part and then waits for rank 0 in the store; rank 0 needs that part."""
    code = (
        _IMPORT
        + """
start(); store = dist.distributed_c10d._get_default_store()
t = tensor(1); dist.all_reduce(t); torch.cuda.synchronize()
work = dist.all_reduce(t, async_op=True)
if rank == 0:
    work.wait(); torch.cuda.synchronize(); store.set("done", "1")
else:
    store.wait(["done"]); work.wait()
show("sum", t); dist.destroy_process_group()
"""
    )
    for finished in run_vgpu(code, schedule=schedule, ranks=2):
        assert finished.lines == ["sum [[4.0]]"]


def test_segments_are_private_and_leave_nothing_behind(run_vgpu: RunVgpu) -> None:
    """Segments are mapped, have no name in a file system, and no descriptor stays open."""
    code = (
        _IMPORT
        + """
import os, stat
start(); t = tensor(1); dist.all_reduce(t); torch.cuda.synchronize()
maps = open("/proc/self/maps").read()
links = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
         if os.path.islink(f"/proc/self/fd/{n}")]
print("memfd:streamguard" in maps, sum("memfd:streamguard" in link for link in links))
dist.destroy_process_group()
"""
    )
    for finished in run_vgpu(code, ranks=2):
        assert finished.lines == ["True 0"]
