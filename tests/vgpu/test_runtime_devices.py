"""Devices, errors, the call log, NVML, and torch's allocators on the virtual GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import RunVgpu

_IMPORT = "from raw_cuda import *\n"


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, "4 0"), ("2,0", "2 2"), ("1,9,0", "1 1"), ("", "0 -"), ("1,1", "0 -")],
    ids=["unset", "two", "ends at the first invalid", "none", "one twice"],
)
def test_visible_devices_choose_and_reorder(
    run_vgpu: RunVgpu, visible: str | None, expected: str
) -> None:
    """CUDA_VISIBLE_DEVICES restricts the devices; PCI bus 1 is physical device 0."""
    code = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.13")
count = ctypes.c_int(); cuda.cudaGetDeviceCount(ctypes.byref(count))
bus = ctypes.create_string_buffer(16)
error = cuda.cudaDeviceGetPCIBusId(bus, 16, 0)
print(count.value, "-" if error else int(bus.value.decode().split(":")[1], 16) - 1)
"""
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert run_vgpu(code, devices=4, environment=environment)[0].lines == [expected]


def test_a_log_that_cannot_be_written_is_said(run_vgpu: RunVgpu) -> None:
    """The program runs without it."""
    environment = {"STREAMGUARD_VGPU_LOG": "/nowhere/calls"}
    code = _IMPORT + "call('cudaDeviceSynchronize'); print('ran')"
    finished = run_vgpu(code, environment=environment)[0]

    assert finished.lines == ["ran"]
    assert "STREAMGUARD_VGPU_LOG: cannot write /nowhere/calls: No such file" in finished.errors


def test_peer_access_is_enabled_once_for_each_direction(run_vgpu: RunVgpu) -> None:
    """Enabling it twice, and disabling what is not enabled, answer CUDA's 704 and 705."""
    code = (
        _IMPORT
        + """
def on(device, name, *arguments): ok("cudaSetDevice", device); return call(name, *arguments)
enable, disable = "cudaDeviceEnablePeerAccess", "cudaDeviceDisablePeerAccess"
print(on(0, enable, 1, 0), on(0, enable, 1, 0), on(1, enable, 0, 0), on(0, enable, 0, 0))
print(on(0, disable, 1), on(0, disable, 1), on(0, enable, 1, 0), on(1, enable, 0, 0))
"""
    )

    assert run_vgpu(code, devices=2)[0].lines == ["0 704 0 101", "0 705 0 704"]


def test_invalid_handles_are_errors(run_vgpu: RunVgpu) -> None:
    """Stale and made-up handles answer with CUDA's codes; the last error is remembered once."""
    code = (
        _IMPORT
        + """
s, e = new_stream(), new_event()
ok("cudaStreamDestroy", s); ok("cudaEventDestroy", e)
print(call("cudaStreamSynchronize", s), call("cudaEventRecord", e, LEGACY),
      call("cudaFree", Pointer(64)), call("cudaSetDevice", 7), call("cudaStreamDestroy", LEGACY))
print(call("cudaPeekAtLastError"), call("cudaGetLastError"), call("cudaGetLastError"))
"""
    )
    lines = run_vgpu(code)[0].lines

    assert lines == ["400 400 1 101 400", "400 400 0"]


def test_an_event_belongs_to_its_device(run_vgpu: RunVgpu) -> None:
    """Recording it on another device's stream is an invalid handle; waiting there is fine."""
    code = (
        _IMPORT
        + """
e = new_event(); record(e, LEGACY)
ok("cudaSetDevice", 1); other = new_stream()
print(call("cudaEventRecord", e, other)); wait(other, e); sync(other)
"""
    )
    assert run_vgpu(code, devices=2)[0].lines == ["400"]


def test_elapsed_time_needs_timing_and_both_records(run_vgpu: RunVgpu) -> None:
    """Not ready before the records ran; invalid without a record or with timing disabled."""
    code = (
        _IMPORT
        + """
a, b, never, untimed = new_event(), new_event(), new_event(), Pointer()
ok("cudaEventCreateWithFlags", ctypes.byref(untimed), ctypes.c_uint(2))
s, elapsed = new_stream(), ctypes.c_float(-1)
record(a, s); record(untimed, s); record(b, s)
def ask(x, y): return call("cudaEventElapsedTime", ctypes.byref(elapsed), x, y)
print(ask(a, b)); sync(s)
print(ask(a, b), elapsed.value >= 0, ask(a, never), ask(a, untimed))
"""
    )
    assert run_vgpu(code, schedule="lazy")[0].lines == ["600", "0 True 400 400"]


def test_missing_functions_refuse_and_name_themselves_once(run_vgpu: RunVgpu) -> None:
    """What is not implemented answers cudaErrorNotSupported."""
    code = _IMPORT + "print([call('cudaIpcGetMemHandle', None, None) for _ in range(3)])"
    finished = run_vgpu(code)[0]

    assert finished.lines == ["[801, 801, 801]"]
    assert finished.errors.count("does not implement cudaIpcGetMemHandle") == 1


def test_the_log_has_a_line_for_each_call(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """Records, waits, copies, host functions and synchronisations, with stream indices."""
    code = (
        _IMPORT
        + """
s, t, e = new_stream(), new_stream(), new_event()
p = pinned_memory(4); d = device_memory(4)
copy(d, p, 4, s); record(e, s); wait(t, e); mark(t, "x"); sync(t)
print(e.value, d.value, p.value)
"""
    )
    log = tmp_path / "calls-%p.log"
    line = run_vgpu(code, schedule="lazy", environment={"STREAMGUARD_VGPU_LOG": str(log)})[0].lines
    event, device, pinned = (hex(int(number)) for number in line[0].split())
    (written,) = tmp_path.glob("calls-*.log")

    assert written.name != "calls-%p.log"
    lines = written.read_text().splitlines()
    assert [text for text in lines if "create" not in text and not text.startswith("ran ")] == [
        f"copy stream=0 target={device} source={pinned} bytes=4",
        f"record stream=0 event={event}",
        f"wait stream=1 event={event}",
        "host_function stream=1",
        "stream_sync stream=1",
    ]


def test_pynvml_sees_the_devices(run_vgpu: RunVgpu) -> None:
    """Counts all installed devices and agrees with torch on name, memory and identity."""
    code = """
import pynvml, torch
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(1)
torch.empty(1 << 20, device="cuda")
memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
print(pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetName(handle), memory.total >> 20)
print(memory.used + torch.cuda.mem_get_info()[0] == memory.total, memory.used > 0)
print(pynvml.nvmlDeviceGetUUID(handle) == f"GPU-{torch.cuda.get_device_properties(0).uuid}")
print(torch.cuda.utilization(), pynvml.nvmlDeviceGetUtilizationRates(handle).memory)
"""
    environment = {"CUDA_VISIBLE_DEVICES": "1", "STREAMGUARD_VGPU_MEMORY_MB": "512"}
    lines = run_vgpu(code, devices=2, environment=environment)[0].lines

    assert lines == ["2 streamguard virtual GPU 512", "True True", "True", "0 0"]


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@pytest.mark.parametrize("allocator", ["", "expandable_segments:True", "backend:cudaMallocAsync"])
def test_torch_copies_survive_every_allocator(
    run_vgpu: RunVgpu, allocator: str, schedule: str
) -> None:
    """Host, device and peer copies keep their bytes; memory returns after use; OOM is torch's."""
    code = """
import torch
x = torch.arange(1 << 20, dtype=torch.int32)
for _ in range(3):
    y = x.cuda(); side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        z = y.to("cuda:1", non_blocking=True)
    y.record_stream(side)
    torch.cuda.current_stream(1).wait_stream(side)
    assert torch.equal(z.cpu(), x)
    del y, z
torch.cuda.synchronize(); torch.cuda.empty_cache()
print(torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1))
try:
    torch.empty(1 << 40, device="cuda")
except torch.OutOfMemoryError:
    print("out of memory")
"""
    environment = {"PYTORCH_CUDA_ALLOC_CONF": allocator} if allocator else {}
    lines = run_vgpu(code, devices=2, schedule=schedule, environment=environment)[0].lines

    assert lines == ["0 0", "out of memory"]


def test_loading_after_torch_is_refused(run_vgpu: RunVgpu) -> None:
    """The error says that the virtual GPU comes first; a second load does nothing."""
    code = """
import sys, types
from streamguard.vgpu import load as loader
loader.load(1)
loader._handles.clear(); sys.modules["torch"] = types.ModuleType("torch")
try:
    loader.load(1)
except loader.UsageError as error:
    print(error)
"""
    (line,) = run_vgpu(code)[0].lines

    assert line.startswith("torch is imported already")


def test_describe_counts_launches_and_pending_work(run_vgpu: RunVgpu) -> None:
    """The public description follows the program; it can be asked again."""
    code = """
import streamguard.vgpu as vgpu, torch
x = torch.zeros(4).cuda(); torch.cuda.synchronize()
start = vgpu.describe()
y = x + 1; z = y * 2
after = vgpu.describe()
print(after.launches - start.launches, after.pending_ops, after.schedule, after.devices)
torch.cuda.synchronize(); print(vgpu.describe().pending_ops, after.is_reproducible)
"""
    assert run_vgpu(code, schedule="lazy")[0].lines == ["2 2 lazy 1", "0 True"]
