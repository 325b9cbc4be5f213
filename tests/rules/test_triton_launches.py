"""Launches of Triton kernels, which go to the driver."""

from pathlib import Path

import pytest

from streamguard.vgpu.load import library_dir
from tests.rules.programs import run

pytest.importorskip("triton", reason="Triton is not among the packages of `make test`")

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale(pointer, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    tl.store(pointer + offsets, tl.load(pointer + offsets, mask=mask) * 2, mask=mask)
"""


def test_launches_are_counted_by_kernel(tmp_path: Path) -> None:
    """What the kernel touches is not known: it is opaque, and the count says how often."""
    (tmp_path / "own_kernels.py").write_text(KERNEL)
    program = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from own_kernels import scale
        x = torch.zeros(1024, device="cuda")
        for _ in range(3):
            scale[(1,)](x, 1024, BLOCK=1024)
    """
    # Triton looks for the driver in the linker's cache, unless it is told where.
    outcome = run(
        tmp_path,
        program,
        TRITON_CACHE_DIR=str(tmp_path / "cache"),
        TRITON_LIBCUDA_PATH=str(library_dir()),
    )

    assert outcome.coverage["opaque"] == {"kernel scale (Triton)": 3}
