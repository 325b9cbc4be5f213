"""Kernels of one's own compute what their host twins do, when their turn comes."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

# What nvcc's host code does for `__global__ void scale(float* x, float factor, int n)`.
_REGISTERED = """
import ctypes
import streamguard.vgpu
from raw_cuda import *

class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

stub = ctypes.CFUNCTYPE(None)(lambda: None)
cuda.__cudaRegisterFatBinary.restype = Pointer
binary = Pointer(cuda.__cudaRegisterFatBinary(None))
cuda.__cudaRegisterFunction(
    binary, stub, None, b"_Z5scalePffi", ctypes.c_int(-1), None, None, None, None, None)
cuda.__cudaRegisterFatBinaryEnd(binary)

def launch(stream, x, factor, n, grid=(2, 1, 1), block=(32, 1, 1)):
    values = [Pointer(x.value), ctypes.c_float(factor), ctypes.c_int(n)]
    pointers = (Pointer * 3)(*(ctypes.addressof(value) for value in values))
    ok("cudaLaunchKernel", stub, Dim3(*grid), Dim3(*block), pointers, ctypes.c_size_t(0), stream)

def floats(x, n):
    return list((ctypes.c_float * n).from_address(x.value))

x = device_memory(16)
(ctypes.c_float * 4).from_address(x.value)[:] = [1.0, 2.0, 3.0, 4.0]
"""
_TWIN = """
seen = []
@streamguard.vgpu.kernel("{symbol}")
def scale(grid, block, x: ctypes.c_void_p, factor: ctypes.c_float, n: ctypes.c_int):
    seen.append((grid, block, factor, n))
    values = (ctypes.c_float * n).from_address(x)
    for i in range(n):
        values[i] *= factor
"""


@pytest.mark.parametrize("symbol", ["_Z5scalePffi", "scale"])
def test_twin_runs_in_stream_order_with_the_launch_s_arguments(
    run_vgpu: RunVgpu, symbol: str
) -> None:
    """Under lazy the twin waits for its turn; shape and arguments are those of the launch."""
    body = """
s = new_stream()
launch(s, x, 2.0, 3)
print(floats(x, 4))
sync(s)
print(floats(x, 4), seen)
"""
    finished = run_vgpu(_REGISTERED + _TWIN.format(symbol=symbol) + body, schedule="lazy")[0]

    assert finished.lines == [
        "[1.0, 2.0, 3.0, 4.0]",
        "[2.0, 4.0, 6.0, 4.0] [((2, 1, 1), (32, 1, 1), 2.0, 3)]",
    ]


def test_each_replay_of_a_graph_runs_the_twin(run_vgpu: RunVgpu) -> None:
    """A captured launch keeps its arguments."""
    body = """
s, graph, executable = new_stream(), Pointer(), Pointer()
ok("cudaStreamBeginCapture", s, ctypes.c_int(0))
launch(s, x, 3.0, 2)
ok("cudaStreamEndCapture", s, ctypes.byref(graph))
ok("cudaGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
for _ in range(2):
    ok("cudaGraphLaunch", executable, s)
sync(s)
print(floats(x, 4))
"""
    finished = run_vgpu(_REGISTERED + _TWIN.format(symbol="scale") + body)[0]

    assert finished.lines == ["[9.0, 18.0, 3.0, 4.0]"]


def test_launch_through_the_driver_runs_the_twin(run_vgpu: RunVgpu) -> None:
    """A function of a module, as Triton and NVRTC launch it, is found by its name."""
    body = """
driver = ctypes.CDLL("libcuda.so.1")
module, function = Pointer(), Pointer()
driver.cuModuleLoadData(ctypes.byref(module), b"image")
driver.cuModuleGetFunction(ctypes.byref(function), module, b"scale")
values = [Pointer(x.value), ctypes.c_float(0.5), ctypes.c_int(4)]
pointers = (Pointer * 3)(*(ctypes.addressof(value) for value in values))
s = new_stream()
status = driver.cuLaunchKernel(function, *[ctypes.c_uint(n) for n in (4, 1, 1, 8, 1, 1, 0)],
                               s, pointers, None)
sync(s)
print(status, floats(x, 4), seen)
"""
    finished = run_vgpu(_REGISTERED + _TWIN.format(symbol="scale") + body)[0]

    assert finished.lines == ["0 [0.5, 1.0, 1.5, 2.0] [((4, 1, 1), (8, 1, 1), 0.5, 4)]"]


def test_kernel_without_a_twin_is_named_once_where_values_are_computed(run_vgpu: RunVgpu) -> None:
    """Two launches, one line; with a twin none."""
    body = """
import sys
for _ in range(2):
    launch(new_stream(), x, 2.0, 4)
device_sync()
"""
    bare = run_vgpu(_REGISTERED + body, values=True)[0]
    twinned = run_vgpu(_REGISTERED + _TWIN.format(symbol="scale") + body, values=True)[0]

    told = [line for line in bare.errors.splitlines() if "no values for kernel" in line]
    assert len(told) == 1
    assert "_Z5scalePffi" in told[0]
    assert 'streamguard.vgpu.kernel("scale", function)' in told[0]
    assert "no values" not in twinned.errors


def test_failed_twin_fails_the_device(run_vgpu: RunVgpu) -> None:
    """An exception has no caller to go to: it is printed, and the next call says launch failure."""
    body = """
@streamguard.vgpu.kernel("scale")
def scale(grid, block, x: ctypes.c_void_p, factor: ctypes.c_float, n: ctypes.c_int):
    raise ValueError("not today")
launch(new_stream(), x, 2.0, 4)
print(call("cudaDeviceSynchronize"))
"""
    finished = run_vgpu(_REGISTERED + body, schedule="lazy")[0]

    assert finished.lines == ["719"]
    assert "the twin of kernel scale failed" in finished.errors
    assert "ValueError: not today" in finished.errors


def test_twin_without_types_is_refused(run_vgpu: RunVgpu) -> None:
    """The runtime would not know how much to copy."""
    body = """
from streamguard.errors import UsageError
try:
    streamguard.vgpu.kernel("scale", lambda grid, block, x: None)
except UsageError as error:
    print("'x'" in str(error))
"""
    assert run_vgpu(_REGISTERED + body)[0].lines == ["True"]
