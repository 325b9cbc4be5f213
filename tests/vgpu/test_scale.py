"""Many streams, events, queued ops, processes and devices: nothing breaks and nothing is kept."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_RESIDENT = """
from raw_cuda import *
def resident_mb():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"): return int(line.split()[1]) / 1024
"""
# Each growth is measured after a first round, which touches what is kept for good.
_GROWTH_MB = 16


def test_a_million_ops_queued_lazily_leave_nothing_behind(run_vgpu: RunVgpu) -> None:
    """10^6 fills and 10^6 event records on 1,000 streams, all pending at once, in order."""
    code = (
        _RESIDENT
        + """
streams = [new_stream() for _ in range(1000)]
events = [new_event() for _ in range(1000)]
data = device_memory(1000)
fill_async, record_event = cuda.cudaMemsetAsync, cuda.cudaEventRecord
one, targets = ctypes.c_size_t(1), [Pointer(data.value + i) for i in range(1000)]
after = []
for attempt in range(2):
    for i in range(1000):
        for s, e, target in zip(streams, events, targets):
            fill_async(target, i % 251, one, s); record_event(e, s)
    assert pending() == 2_000_000, pending()
    device_sync()
    assert pending() == 0
    assert {byte_at(data, i) for i in range(1000)} == {999 % 251}
    after.append(resident_mb())
print(after[1] - after[0])
"""
    )
    finished = run_vgpu(code, schedule="lazy")[0]

    assert float(finished.lines[0]) < _GROWTH_MB


def test_a_million_events_and_many_streams_made_and_destroyed(run_vgpu: RunVgpu) -> None:
    """Handles that are destroyed cost nothing: four rounds of 250,000 events, 1,000 streams."""
    code = (
        _RESIDENT
        + """
create, destroy = cuda.cudaEventCreateWithFlags, cuda.cudaEventDestroy
after = []
for attempt in range(4):
    streams = [new_stream() for _ in range(1000)]
    events = [Pointer() for _ in range(250_000)]
    for event in events: create(ctypes.byref(event), 0)
    for i, s in enumerate(streams): record(events[i], s); wait(streams[i - 1], events[i])
    for event in events: destroy(event)
    for s in streams: ok("cudaStreamDestroy", s)
    device_sync(); del events, streams, event, s
    after.append(resident_mb())
print(after[3] - after[1])
"""
    )
    finished = run_vgpu(code, schedule="lazy")[0]

    assert float(finished.lines[0]) < _GROWTH_MB


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:5"])
def test_eight_processes_with_eight_devices_each(run_vgpu: RunVgpu, schedule: str) -> None:
    """64 devices: each process reduces with the other seven on each of its eight devices."""
    code = """
from raw_cuda import *
from raw_nccl import *
ids = [new_id() for _ in range(8)]
def body(rank):
    comms, streams, datas, sums = [], [], [], []
    for device in range(8):
        set_device(device)
        comms.append(join(ids[device], 8, rank)); streams.append(new_stream())
        datas.append(device_memory(4)); sums.append(pinned_memory(4))
        ctypes.c_float.from_address(sums[-1].value).value = 1 + device
        copy(datas[-1], sums[-1], 4, streams[-1])
    for _ in range(2):
        for device in range(8):
            set_device(device); all_reduce(comms[device], datas[device], streams[device])
    for device in range(8):
        set_device(device)
        copy(sums[device], datas[device], 4, streams[device]); sync(streams[device])
        value = ctypes.c_float.from_address(sums[device].value).value
        assert value == 64 * (1 + device), (rank, device, value)
        leave(comms[device])
print(run_ranks(8, body))
"""
    finished = run_vgpu(code, devices=8, schedule=schedule)[0]

    assert (finished.output, finished.errors) == ("[0, 0, 0, 0, 0, 0, 0]\n", "")
