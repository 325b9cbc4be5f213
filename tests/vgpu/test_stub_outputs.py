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


def test_cudnn_refuses_what_a_caller_would_read(run_vgpu: RunVgpu) -> None:
    """Its version fits torch's; an algorithm, a size, an attribute is "not supported", by name."""
    code = """
import ctypes, torch
value = ctypes.c_size_t(77)
cudnn = ctypes.CDLL("libcudnn.so.9")
compiled = torch._C._cudnn.getCompileVersion()
print(torch.backends.cudnn.version() >= compiled[0] * 10000 + compiled[1] * 100)
for name in ["cudnnBackendGetAttribute", "cudnnGetRNNWeightSpaceSize"]:
    print(getattr(cudnn, name)(*[ctypes.byref(value)] * 6), value.value)
with torch.backends.cudnn.flags(enabled=True):
    try:
        torch.nn.Conv2d(2, 2, 3).cuda()(torch.ones(1, 2, 4, 4, device="cuda"))
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""
    finished = run_vgpu(code)[0]

    assert finished.lines[:3] == ["True", "3000 77", "3000 77"]
    assert "NOT_SUPPORTED" in finished.lines[3]
    assert finished.errors.count("cudnnBackendGetAttribute") == 1


def test_networks_run_without_values(run_vgpu: RunVgpu) -> None:
    """With the values off torch takes paths without cuDNN: convolution, norm, LSTM, attention."""
    code = """
import torch
from torch import nn
x = torch.ones(2, 4, 8, 8, device="cuda", requires_grad=True)
nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)).cuda()(x).sum().backward()
nn.LSTM(4, 5, 2).cuda()(torch.ones(3, 2, 4, device="cuda"))[0].sum().backward()
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    q = torch.ones(1, 4, 8, 32, device="cuda", dtype=dtype, requires_grad=True)
    for mask in (None, torch.ones(8, 8, device="cuda", dtype=torch.bool)):
        nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask).sum().backward()
torch.cuda.synchronize()
print(tuple(x.grad.shape))
"""
    environment = {"STREAMGUARD_VGPU_VALUES": "0"}
    finished = run_vgpu(code, values=True, environment=environment)[0]

    assert finished.lines == ["(2, 4, 8, 8)"]


def test_nvshmem_is_refused(run_vgpu: RunVgpu) -> None:
    """No memory, no team, "not initialised", and a status for the rest."""
    code = """
import ctypes
shmem = ctypes.CDLL("libnvshmem_host.so.3")
shmem.nvshmem_malloc.restype = ctypes.c_void_p
print(shmem.nvshmem_malloc(64), shmem.nvshmem_team_n_pes(0))
print(shmem.nvshmemid_init_status(), shmem.nvshmemx_get_uniqueid(None))
"""
    finished = run_vgpu(code)[0]

    assert finished.lines == ["None -1", "0 3"]
    assert finished.errors.count("nvshmem_malloc") == 1
