"""The delay kernel of csrc/cuda/probes.cu, where nvcc was there to build it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamguard.hooks.install import PROBES

PROGRAM = """
import ctypes, torch
stream = torch.cuda.Stream()
library = ctypes.CDLL({probes!r})
before = torch.zeros(1, device="cuda")
handle = ctypes.c_void_p(stream.cuda_stream)
print(library.streamguard_stand_still(handle, ctypes.c_ulonglong(1_000_000)))
stream.synchronize()
"""


@pytest.mark.skipif(not PROBES.is_file(), reason="no nvcc of torch's CUDA release")
def test_the_delay_kernel_is_launched_through_the_runtime_of_the_process() -> None:
    """The library brings no CUDA runtime of its own: the virtual GPU takes its kernel."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(probes=str(PROBES))],
        env={"STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_LOG": "-", "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True,
    )  # fmt: skip

    assert done.stdout.split() == ["0"], done.stderr[-2000:]
    assert [line for line in done.stderr.splitlines() if "stand_still" in line]
