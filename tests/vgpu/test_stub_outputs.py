"""Generated stubs leave no output unwritten that a caller reads: it is 0, or the call refused."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

NOT_SUPPORTED = {"cublasLt": 15, "cusparseLt": 10}


@pytest.mark.parametrize(
    ("library", "function", "position"),
    [
        ("libcusolver.so.12", "cusolverDnSgesvd_bufferSize", 4),
        ("libcusparse.so.12", "cusparseSbsrsv2_bufferSize", 12),
        ("libcusparse.so.12", "cusparseScsrgeam2_bufferSizeExt", 20),
        ("libcufft.so.12", "cufftXtMakePlanMany", 13),
    ],
)
def test_a_size_output_is_set_to_zero(
    run_vgpu: RunVgpu, library: str, function: str, position: int
) -> None:
    """The call succeeds and writes 0 over what was there, through the pointer of that number."""
    code = f"""
import ctypes
size = ctypes.c_size_t(77)
arguments = [None] * {position - 1} + [ctypes.byref(size)]
print(ctypes.CDLL("{library}").{function}(*arguments), size.value)
"""

    assert run_vgpu(code)[0].lines == ["0 0"]


@pytest.mark.parametrize(
    ("library", "function"),
    [
        ("cublasLt.so.13", "cublasLtMatmulAlgoConfigGetAttribute"),
        ("cusparseLt.so.0", "cusparseLtMatmulAlgGetAttribute"),
    ],
)
def test_an_output_that_cannot_be_made_up_is_refused(
    run_vgpu: RunVgpu, library: str, function: str
) -> None:
    """The library's own "not supported", the name once on stderr, and nothing written."""
    code = f"""
import ctypes
value = ctypes.c_size_t(77)
function = ctypes.CDLL("lib{library}").{function}
print([function(*[ctypes.byref(value)] * 5) for _ in range(2)], value.value)
"""
    finished = run_vgpu(code)[0]

    status = NOT_SUPPORTED[library.partition(".")[0]]
    assert finished.lines == [f"[{status}, {status}] 77"]
    assert finished.errors.count(function) == 1
