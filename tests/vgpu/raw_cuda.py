"""CUDA's C interface for test programs that need no torch: calls, and ops that leave a trace.

Runs inside the programs that `run_vgpu` starts. `mark(stream, label)` queues a host function that
appends `label` to `order`: the order in which ops ran.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from streamguard.vgpu.load import load

load(1)  # keeps the count of a program that has loaded more
cuda = ctypes.CDLL("libcudart.so.13")

Pointer = ctypes.c_void_p
_HostFunction = ctypes.CFUNCTYPE(None, Pointer)
LEGACY, PER_THREAD = 1, 2
BLOCKING, NON_BLOCKING = 0, 1
INVALID_VALUE, OUT_OF_MEMORY, INVALID_DEVICE, INVALID_HANDLE = 1, 2, 101, 400
NOT_READY, NOT_PERMITTED, NOT_SUPPORTED = 600, 800, 801
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_UNJOINED = 900, 901, 904

order: list[str] = []
_kept: list[object] = []


def call(name: str, *arguments: object) -> int:
    """Call a runtime function; its error code."""
    return int(getattr(cuda, name)(*arguments))


def ok(name: str, *arguments: object) -> None:
    """Call a runtime function that must succeed."""
    error = call(name, *arguments)
    assert error == 0, f"{name} answered {error}"


def new_stream(flags: int = NON_BLOCKING) -> Pointer:
    """A stream of the current device."""
    stream = Pointer()
    ok("cudaStreamCreateWithFlags", ctypes.byref(stream), ctypes.c_uint(flags))
    return stream


def new_event() -> Pointer:
    """An event of the current device."""
    event = Pointer()
    ok("cudaEventCreateWithFlags", ctypes.byref(event), ctypes.c_uint(0))
    return event


def host_call(stream: object, function: Callable[[], None]) -> None:
    """Queue a host function."""
    wrapped = _HostFunction(lambda _: function())
    _kept.append(wrapped)
    ok("cudaLaunchHostFunc", stream, wrapped, None)


def mark(stream: object, label: str) -> None:
    """Queue an op that appends `label` to `order` when it runs."""
    host_call(stream, lambda: order.append(label))


def record(event: Pointer, stream: object) -> None:
    """cudaEventRecord."""
    ok("cudaEventRecord", event, stream)


def wait(stream: object, event: Pointer) -> None:
    """cudaStreamWaitEvent."""
    ok("cudaStreamWaitEvent", stream, event, ctypes.c_uint(0))


def sync(stream: object) -> None:
    """cudaStreamSynchronize."""
    ok("cudaStreamSynchronize", stream)


def device_sync() -> None:
    """cudaDeviceSynchronize."""
    ok("cudaDeviceSynchronize")


def device_memory(size_bytes: int) -> Pointer:
    """cudaMalloc."""
    pointer = Pointer()
    ok("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
    return pointer


def pinned_memory(size_bytes: int) -> Pointer:
    """cudaHostAlloc."""
    pointer = Pointer()
    ok("cudaHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(size_bytes), ctypes.c_uint(0))
    return pointer


def copy(target: object, source: object, size_bytes: int, stream: object) -> None:
    """cudaMemcpyAsync; the direction follows from the pointers."""
    ok("cudaMemcpyAsync", target, source, ctypes.c_size_t(size_bytes), 4, stream)


def copy_blocking(target: object, source: object, size_bytes: int) -> None:
    """cudaMemcpy."""
    ok("cudaMemcpy", target, source, ctypes.c_size_t(size_bytes), 4)


def fill(target: object, value: int, size_bytes: int, stream: object) -> None:
    """cudaMemsetAsync."""
    ok("cudaMemsetAsync", target, value, ctypes.c_size_t(size_bytes), stream)


def byte_at(pointer: Pointer, offset: int = 0) -> int:
    """Read memory directly, as no CUDA program could: what an op has left there."""
    assert pointer.value is not None
    return int(ctypes.c_ubyte.from_address(pointer.value + offset).value)


def set_byte(pointer: Pointer, value: int, offset: int = 0) -> None:
    """Write memory directly."""
    assert pointer.value is not None
    ctypes.c_ubyte.from_address(pointer.value + offset).value = value


def pending() -> int:
    """Ops issued and not run."""
    return int(cuda.streamguard_vgpu_pending())
