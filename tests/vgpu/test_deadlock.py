"""Work that can never run ends in an error that says where every stream and rank stands."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_ONE_SECOND = {"STREAMGUARD_VGPU_DEADLOCK_S": "1"}
_NCCL = "from raw_cuda import *\nfrom raw_nccl import *\n"
_LAUNCH_TIMEOUT = 702
_LAUNCH_FAILURE = 719

# Each rank waits in a communicator of its own for the other one.
_CROSSED = """
first, second = new_id(), new_id()
def body(rank):
    comms = [join(first, 2, rank), join(second, 2, rank)]
    s, t, e, data = new_stream(), new_stream(), new_event(), device_memory(8)
    all_reduce(comms[0], data, s); sync(s)
    all_reduce(comms[{choice}], data, s); record(e, s); wait(t, e)
    say("rank", rank, call("cudaStreamSynchronize", t))
say(run_ranks(2, body))
"""


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_deadlock_of_ranks_names_every_rank_and_stream(run_vgpu: RunVgpu, schedule: str) -> None:
    """Both ranks end; each says what it waits for and what its streams hold."""
    code = _NCCL + _CROSSED.format(choice="rank")
    finished = run_vgpu(code, schedule=schedule, environment=_ONE_SECOND)[0]

    assert sorted(finished.lines) == [
        "[0]",
        f"rank 0 {_LAUNCH_FAILURE}",
        f"rank 1 {_LAUNCH_FAILURE}",
    ]
    for told in (
        "rank 0: collective 1 pending, all_reduce(count=1, float32, sum)",
        "rank 1: nothing pending here, 1 collectives done",
        "rank 1: collective 0 pending, all_reduce(count=1, float32, sum)",
        "rank 0: nothing pending here, 0 collectives done",
        "stream 0 (device 0, non-blocking, 2 pending): collective_end all_reduce(1,float32)",
        "stream 1 (device 0, non-blocking, 1 pending): "
        "wait for an event, waits for op 5 of stream 0",
    ):
        assert told in finished.errors


def test_ranks_that_agree_are_no_deadlock(run_vgpu: RunVgpu) -> None:
    """The same program with one communicator for both ranks ends well."""
    code = _NCCL + _CROSSED.format(choice="1")
    finished = run_vgpu(code, schedule="lazy", environment=_ONE_SECOND)[0]

    assert (sorted(finished.lines), finished.errors) == (["[0]", "rank 0 0", "rank 1 0"], "")


def test_a_receive_that_nobody_sends_is_reported(run_vgpu: RunVgpu) -> None:
    """The other rank sleeps elsewhere: it has nothing pending and never moves."""
    code = (
        _NCCL
        + """
import os
unique_id, (reader, writer) = new_id(), os.pipe()
def body(rank):
    comm, s, data = join(unique_id, 2, rank), new_stream(), device_memory(8)
    if rank == 1:
        os.read(reader, 1)
        return
    nccl.ncclRecv(data, ctypes.c_size_t(1), FLOAT32, 1, comm, s)
    say(call("cudaStreamSynchronize", s))
    os.write(writer, b"x")
say(run_ranks(2, body))
"""
    )
    finished = run_vgpu(code, schedule="lazy", environment=_ONE_SECOND)[0]

    assert finished.lines == [str(_LAUNCH_FAILURE), "[0]"]
    assert "rank 0: message 0 from rank 1 pending" in finished.errors
    assert "rank 1: nothing pending here, 0 collectives done" in finished.errors


def test_a_rank_that_computes_is_waited_for(run_vgpu: RunVgpu) -> None:
    """Work on the host, however long, is no deadlock: rank 1 computes for seconds first."""
    code = (
        _NCCL
        + """
import time
unique_id = new_id()
def body(rank):
    comm, s, data = join(unique_id, 2, rank), new_stream(), device_memory(8)
    begin = time.process_time()
    while rank == 1 and time.process_time() < begin + 3: pass
    all_reduce(comm, data, s); say(call("cudaStreamSynchronize", s))
say(run_ranks(2, body))
"""
    )
    finished = run_vgpu(code, schedule="lazy", environment=_ONE_SECOND)[0]

    assert (sorted(finished.lines), finished.errors) == (["0", "0", "[0]"], "")


def test_a_child_process_at_work_is_waited_for(run_vgpu: RunVgpu) -> None:
    """A rank that sleeps while its compiler runs is at work."""
    code = (
        _NCCL
        + """
import subprocess, sys
unique_id = new_id()
busy = "import time\\nwhile time.process_time() < 3: pass"
def body(rank):
    comm, s, data = join(unique_id, 2, rank), new_stream(), device_memory(8)
    if rank == 1: subprocess.run([sys.executable, "-S", "-c", busy], check=True)
    all_reduce(comm, data, s); say(call("cudaStreamSynchronize", s))
say(run_ranks(2, body))
"""
    )
    finished = run_vgpu(code, schedule="lazy", environment=_ONE_SECOND)[0]

    assert (sorted(finished.lines), finished.errors) == (["0", "0", "[0]"], "")


def test_a_host_function_that_never_returns_ends_the_process(run_vgpu: RunVgpu) -> None:
    """There is no call that could answer with an error: the process ends with status 70."""
    code = """
import threading
from raw_cuda import *
never, s = threading.Lock(), new_stream()
never.acquire()
host_call(s, lambda: never.acquire()); mark(s, "after")
device_sync()
"""
    finished = run_vgpu(code, schedule="lazy", environment=_ONE_SECOND, check=False)[0]

    assert finished.status == 70
    assert "stream 0 (device 0, non-blocking, 2 pending): host function" in finished.errors


def test_zero_seconds_means_never(run_vgpu: RunVgpu) -> None:
    """With STREAMGUARD_VGPU_DEADLOCK_S=0 a rank that sleeps long is waited for."""
    code = (
        _NCCL
        + """
import os, select
unique_id = new_id()
def body(rank):
    comm, s, data = join(unique_id, 2, rank), new_stream(), device_memory(8)
    if rank == 1: select.select([], [], [], 2.5)
    all_reduce(comm, data, s); say(call("cudaStreamSynchronize", s))
say(run_ranks(2, body))
"""
    )
    never = {"STREAMGUARD_VGPU_DEADLOCK_S": "0"}
    finished = run_vgpu(code, schedule="lazy", environment=never)[0]

    assert (sorted(finished.lines), finished.errors) == (["0", "0", "[0]"], "")
