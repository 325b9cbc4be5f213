"""Launches of Triton kernels, which go to the driver: the kernels' code says what they touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.vgpu.load import library_dir
from tests.conformance.watched import PRELOADED
from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import Outcome, run

pytest.importorskip("triton", reason="`make test-frameworks` installs Triton, `make test` does not")

# Triton reads a kernel's source, so that must be a file.
KERNELS = """
import triton
import triton.language as tl

@triton.jit
def add_to(value, total, size, BLOCK: tl.constexpr, DOUBLES: tl.constexpr = False):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    sum = tl.load(total + offsets, mask=mask) + tl.load(value + offsets, mask=mask)
    tl.store(total + offsets, sum, mask=mask)
    if DOUBLES:
        tl.store(value + offsets, sum, mask=mask)

@triton.jit
def scale(source, target, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    tl.store(target + offsets, tl.load(source + offsets, mask=mask) * 2, mask=mask)

@triton.jit
def through_assembly(source, size, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(source + offsets, mask=offsets < size)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=False, pack=1
    )
    tl.store(source + offsets, y, mask=offsets < size)
"""

START = """
    import sys
    sys.path.insert(0, {folder!r})
    from own_kernels import add_to, scale, through_assembly
    side = torch.cuda.Stream()
    x = torch.zeros(1024, device="cuda")
    y = torch.zeros(512, device="cuda")
    torch.cuda.synchronize()
"""


def run_kernels(directory: Path, program: str) -> Outcome:
    """Run a program with the kernels above imported."""
    (directory / "own_kernels.py").write_text(KERNELS)
    # Triton looks for the driver in the linker's cache, unless it is told where.
    return run(
        directory,
        START.format(folder=str(directory)) + program,
        TRITON_CACHE_DIR=str(directory / "cache"),
        TRITON_LIBCUDA_PATH=str(library_dir()),
        TORCHINDUCTOR_CACHE_DIR=str(directory / "inductor"),
        **PRELOADED,
    )


READS = """
    with torch.cuda.stream(side):
        x.fill_(1)
    {order}
    scale[(1,)](x, target=y, size=512, BLOCK=512)
"""
ORDER = "torch.cuda.current_stream().wait_stream(side)"


def test_a_read_in_a_kernel_races_with_a_write(tmp_path: Path) -> None:
    """Only the loaded tensor is read, wherever the kernel's parameters are given by name."""
    outcome = run_kernels(tmp_path, READS.format(order=""))

    assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side("scale", "read", "default", "scale[(1,)](x, target=y, size=512, BLOCK=512)"),
        size=4096,
    )
    assert outcome.coverage["opaque"] == {}
    assert outcome.coverage["launches"] == 4


def test_the_same_read_behind_a_wait_is_clean(tmp_path: Path) -> None:
    """The twin differs in the wait."""
    assert_clean(run_kernels(tmp_path, READS.format(order=ORDER)), ops_at_least=4)


WRITES = """
    with torch.cuda.stream(side):
        add_to[(1,)](y, x, 512, BLOCK=512, DOUBLES={doubles})
    kept = y.sum()
    torch.cuda.synchronize()
"""


def test_each_specialisation_is_read_for_itself(tmp_path: Path) -> None:
    """Whether the kernel writes its first tensor depends on a constant: two reads do not race."""
    outcome = run_kernels(tmp_path, WRITES.format(doubles=False))

    assert_clean(outcome, ops_at_least=4)
    both = WRITES.format(doubles=False) + WRITES.format(doubles=True)
    (found,) = run_kernels(tmp_path, both).findings
    assert (found["code"], found["first"]["op"], found["count"]) == ("SG001", "add_to", 1)


def test_a_kernel_beyond_the_analysis_is_counted(tmp_path: Path) -> None:
    """Assembly that may do anything: what the kernel touches is not known, and it is opaque."""
    outcome = run_kernels(tmp_path, "    through_assembly[(1,)](x, 1024, BLOCK=1024)\n" * 3)

    assert outcome.coverage["opaque"] == {"kernel through_assembly (Triton)": 3}


COMPILED = """
    import torch._inductor.config
    torch._inductor.config.compile_threads = 1
    compiled = torch.compile(lambda a, b: (a * 2 + b).relu().sum(0))
    u, v = torch.zeros(64, 64, device="cuda"), torch.zeros(64, 64, device="cuda")
    compiled(u, v)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        v.fill_(1)
    {order}
    result = compiled(u, v)
"""


def test_a_compiled_function_reads_its_inputs(tmp_path: Path) -> None:
    """Inductor's fused kernel reads what the function was given; its line and its call's stand."""
    outcome = run_kernels(tmp_path, COMPILED.format(order=""))

    assert [(f["code"], f["first"]["op"]) for f in outcome.findings] == [("SG001", "aten::fill_")]
    second = outcome.findings[0]["second"]
    assert second["op"].startswith("triton_")
    assert second["access"] == "read"
    assert outcome.lines_of(second) == [
        "compiled = torch.compile(lambda a, b: (a * 2 + b).relu().sum(0))",
        "result = compiled(u, v)",
    ]
    overlap = outcome.findings[0]["overlap"]
    assert overlap["end"] - overlap["begin"] == 64 * 64 * 4
    assert not [name for name in outcome.coverage["opaque"] if "kernel" in name]


def test_a_compiled_function_behind_a_wait_is_clean(tmp_path: Path) -> None:
    """The twin differs in the wait."""
    assert_clean(run_kernels(tmp_path, COMPILED.format(order=ORDER)), ops_at_least=5)
