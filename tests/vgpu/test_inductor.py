"""inductor's fused kernels launch in stream order, have no values, and are named once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import RunVgpu

pytest.importorskip("triton", reason="`make test-triton` installs it")

_LIBRARIES = Path(__file__).resolve().parents[2] / "streamguard" / "vgpu" / "lib"


@pytest.mark.long
def test_a_fused_kernel_is_named_once_and_can_get_a_twin(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """Without a twin the kernel is named at its first launch; with one the result is right."""
    code = """
import ctypes, sys, torch
import streamguard.vgpu
f = torch.compile(lambda x: torch.sin(x) * 2 + 1)
x = torch.arange(4.0, device="cuda")
print(tuple(f(x).shape), tuple(f(x).shape))
torch.cuda.synchronize()
print("twin", file=sys.stderr, flush=True)

@streamguard.vgpu.kernel("triton_poi_fused_add_mul_sin_0")
def twin(grid, block, x: ctypes.c_void_p, y: ctypes.c_void_p, n: ctypes.c_int):
    source, target = ((ctypes.c_float * n).from_address(at) for at in (x, y))
    for i in range(n):
        target[i] = source[i] + 10  # not what the kernel does: only the twin gives it

print(f(x).tolist())
"""
    environment = {
        "TRITON_LIBCUDA_PATH": str(_LIBRARIES),
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PATH": os.environ["PATH"],
    }
    finished = run_vgpu(code, values=True, environment=environment)[0]

    before, _, after = finished.errors.partition("twin\n")
    assert finished.lines == ["(4,) (4,)", "[10.0, 11.0, 12.0, 13.0]"]
    named = "computes no values for kernel triton_poi_fused_add_mul_sin_0"
    assert (before.count(named), after.count(named)) == (1, 0)
