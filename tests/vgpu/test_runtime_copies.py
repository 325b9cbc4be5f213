"""Copies read and write when CUDA says they do; freed and untouched memory behave as memory."""

from __future__ import annotations

from conftest import RunVgpu

_IMPORT = "from raw_cuda import *\n"
_BUFFERS = """
s = new_stream()
device, other = device_memory(1), device_memory(1)
pinned = pinned_memory(1)
pageable_bytes = (ctypes.c_ubyte * 1)()
pageable = Pointer(ctypes.addressof(pageable_bytes))
"""


def _last(run_vgpu: RunVgpu, body: str, schedule: str = "lazy") -> str:
    return run_vgpu(_IMPORT + _BUFFERS + body, schedule=schedule)[0].lines[-1]


def test_pageable_source_is_read_before_the_call_returns(run_vgpu: RunVgpu) -> None:
    """A later host write does not reach the device; the device write itself runs later."""
    body = """
set_byte(pageable, 1); copy(device, pageable, 1, s); set_byte(pageable, 2)
before = byte_at(device); sync(s)
print(before, byte_at(device))"""

    assert _last(run_vgpu, body) == "0 1"


def test_pinned_source_is_read_when_the_copy_runs(run_vgpu: RunVgpu) -> None:
    """A host write to pinned memory before the copy has run reaches the device."""
    body = """
set_byte(pinned, 1); copy(device, pinned, 1, s); set_byte(pinned, 2); sync(s)
print(byte_at(device))"""

    assert _last(run_vgpu, body) == "2"
    assert _last(run_vgpu, body, "eager") == "1"


def test_copy_to_pageable_memory_waits(run_vgpu: RunVgpu) -> None:
    """cudaMemcpyAsync to pageable memory returns when the bytes are there."""
    body = """
fill(device, 5, 1, s); copy(pageable, device, 1, s)
print(byte_at(pageable), pending())"""

    assert _last(run_vgpu, body) == "5 0"


def test_copy_to_pinned_memory_does_not_wait(run_vgpu: RunVgpu) -> None:
    """cudaMemcpyAsync to pinned memory returns before the bytes are there."""
    body = """
fill(device, 5, 1, s); copy(pinned, device, 1, s)
before = byte_at(pinned); sync(s); print(before, byte_at(pinned))"""

    assert _last(run_vgpu, body) == "0 5"


def test_blocking_device_to_device_copy_does_not_block_the_host(run_vgpu: RunVgpu) -> None:
    """cudaMemcpy between device addresses is only ordered on the default stream."""
    body = """
fill(device, 5, 1, LEGACY); copy_blocking(other, device, 1)
before = byte_at(other); device_sync(); print(before, byte_at(other))"""

    assert _last(run_vgpu, body) == "0 5"


def test_blocking_copy_from_pinned_memory_waits(run_vgpu: RunVgpu) -> None:
    """cudaMemcpy from pinned memory returns when the device holds the bytes."""
    body = "set_byte(pinned, 6); copy_blocking(device, pinned, 1); print(byte_at(device))"

    assert _last(run_vgpu, body) == "6"


def test_blocking_copy_from_pageable_memory_leaves_the_write_pending(run_vgpu: RunVgpu) -> None:
    """cudaMemcpy from pageable memory waits for the stream, then returns once staged."""
    body = """
mark(LEGACY, "earlier"); set_byte(pageable, 6); copy_blocking(device, pageable, 1)
print(order, byte_at(device), pending())"""

    assert _last(run_vgpu, body) == "['earlier'] 0 1"


def test_host_to_host_copy_is_finished_at_return(run_vgpu: RunVgpu) -> None:
    """Also with the asynchronous call and pinned memory."""
    body = "set_byte(pageable, 9); copy(pinned, pageable, 1, s); print(byte_at(pinned))"

    assert _last(run_vgpu, body) == "9"


def test_registered_memory_is_pinned_until_unregistered(run_vgpu: RunVgpu) -> None:
    """cudaHostRegister makes copies asynchronous, cudaHostUnregister waits for them."""
    body = """
ok("cudaHostRegister", pageable, ctypes.c_size_t(1), 0)
set_byte(pageable, 1); copy(device, pageable, 1, s); set_byte(pageable, 2)
ok("cudaHostUnregister", pageable)
print(byte_at(device), call("cudaHostUnregister", pageable))"""

    assert _last(run_vgpu, body) == "2 713"


def test_pitched_copy_moves_the_rows_and_nothing_else(run_vgpu: RunVgpu) -> None:
    """Two rows of two bytes; the gap in the target keeps its bytes."""
    body = """
source, target = pinned_memory(8), device_memory(8)
for i in range(8): set_byte(source, i + 1, i)
n = ctypes.c_size_t
ok("cudaMemcpy2DAsync", target, n(3), source, n(4), n(2), n(2), 4, s); sync(s)
print([byte_at(target, i) for i in range(6)])"""

    assert _last(run_vgpu, body) == "[1, 2, 0, 5, 6, 0]"


def test_suppressed_copies_leave_device_memory_alone(run_vgpu: RunVgpu) -> None:
    """While the counter is positive device copies and fills are empty; host copies are not."""
    body = """
cuda.streamguard_vgpu_suppress_copies.restype = ctypes.POINTER(ctypes.c_int)
counter = cuda.streamguard_vgpu_suppress_copies()
fill(device, 1, 1, s); counter[0] += 1
fill(device, 2, 1, s); fill(other, 3, 1, s); copy(other, device, 1, s); copy(pinned, device, 1, s)
counter[0] -= 1; sync(s)
print(byte_at(device), byte_at(other), byte_at(pinned))"""

    assert _last(run_vgpu, body) == "1 0 1"


def test_free_waits_for_the_device(run_vgpu: RunVgpu) -> None:
    """cudaFree runs all queued work of the device first."""
    body = 'mark(s, "work"); ok("cudaFree", device); print(order, pending())'

    assert _last(run_vgpu, body) == "['work'] 0"


def test_freed_memory_shows_its_pattern_when_it_is_reused(run_vgpu: RunVgpu) -> None:
    """Outside eager, a block handed out again holds no earlier values."""
    body = """
fill(device, 1, 1, s); sync(s); address = device.value
ok("cudaFree", device); again = device_memory(1)
print(again.value == address, hex(byte_at(again)))"""

    assert _last(run_vgpu, body) == "True 0xfb"


def test_free_async_takes_effect_in_stream_order(run_vgpu: RunVgpu) -> None:
    """Memory of cudaMallocAsync stays usable for work before its free."""
    body = """
block, free, total = Pointer(), ctypes.c_size_t(), ctypes.c_size_t()
def free_bytes():
    ok("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total)); return free.value
start = free_bytes()
ok("cudaMallocAsync", ctypes.byref(block), ctypes.c_size_t(1), s)
fill(block, 4, 1, s); copy(pinned, block, 1, s); ok("cudaFreeAsync", block, s)
held = start - free_bytes(); sync(s)
print(byte_at(pinned), held > 0, start - free_bytes())"""

    assert _last(run_vgpu, body) == "4 True 0"


def test_memory_is_limited_and_taken_only_when_touched(run_vgpu: RunVgpu) -> None:
    """The budget counts what is allocated; the machine's memory only what was written."""
    code = (
        _IMPORT
        + """
import resource
block = device_memory(900 << 20)
print(call("cudaMalloc", ctypes.byref(Pointer()), ctypes.c_size_t(200 << 20)))
ok("cudaFree", block)
print(call("cudaMalloc", ctypes.byref(Pointer()), ctypes.c_size_t(200 << 20)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < (300 << 10))
"""
    )
    environment = {"STREAMGUARD_VGPU_MEMORY_MB": "1024"}

    assert run_vgpu(code, environment=environment)[0].lines == ["2", "0", "True"]
