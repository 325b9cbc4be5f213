"""Operators of `torch.library`: inner ops count as themselves, own launches by the schema."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.conformance.watched import PRELOADED
from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run

# cudaMemsetAsync stands for a kernel of an extension.
OPS = """
    import ctypes
    from typing import List, Optional
    from torch import Tensor
    cudart = ctypes.CDLL(None)

    def launch(target):
        stream = torch.cuda.current_stream().cuda_stream
        address = ctypes.c_void_p(target.data_ptr())
        cudart.cudaMemsetAsync(address, 0, ctypes.c_size_t(target.nbytes), ctypes.c_void_p(stream))

    @torch.library.custom_op("mine::scale", mutates_args=("out",))
    def scale(inputs: List[Tensor], bias: Optional[Tensor], out: Tensor) -> None:
        launch(out)

    @torch.library.custom_op("mine::fresh", mutates_args=(), device_types="cuda")
    def fresh(x: Tensor) -> Tensor:
        result = torch.empty_like(x)
        launch(result)
        return result

    @torch.library.custom_op("mine::composed", mutates_args=())
    def composed(x: Tensor, y: Tensor) -> Tensor:
        return x + 1

    side = torch.cuda.Stream()
    x = torch.zeros(1024, device="cuda")
    y = torch.zeros(1024, device="cuda")
    nothing = torch.zeros(0, device="cuda")
    torch.cuda.synchronize()
"""
CALL = """
    with torch.cuda.stream(side):
        x.fill_(1)
    {order}
    {call}
"""
ORDER = "torch.cuda.current_stream().wait_stream(side)"
CALLS = {
    "scale([y, x, nothing], None, y)": ("mine::scale", "RAW", "SG001", "read"),
    "scale([y], y, x)": ("mine::scale", "WAW", "SG003", "write"),
    "kept = fresh(x)": ("mine::fresh", "RAW", "SG001", "read"),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_own_launch_touches_what_the_schema_says(tmp_path: Path, call: str) -> None:
    """Lists, optional tensors and empty ones; the launch is no raw access of its own."""
    op, kind, code, access = CALLS[call]
    outcome = run(tmp_path, OPS + CALL.format(order="", call=call), **PRELOADED)

    assert_only_finding(
        outcome,
        code=code,
        kind=kind,
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side(op, access, "default", call),
        size=4096,
    )
    assert outcome.coverage["raw_copies"] == 0


def test_own_launches_behind_a_wait_are_clean(tmp_path: Path) -> None:
    """The twins differ in the wait; a fresh result is written where it is read next."""
    program = OPS
    for call in CALLS:
        program += CALL.format(order=ORDER, call=call)
        program += "    side.wait_stream(torch.cuda.current_stream())\n"
    outcome = run(tmp_path, program + "    total = kept.sum()\n", **PRELOADED)

    assert_clean(outcome, ops_at_least=9)


def test_a_composed_kernel_is_its_inner_ops(tmp_path: Path) -> None:
    """It takes a tensor that it does not touch: reading that would be a false race."""
    clean = run(tmp_path, OPS + CALL.format(order="", call="composed(y, x)"), **PRELOADED)
    assert_clean(clean, ops_at_least=4)

    racy = run(tmp_path, OPS + CALL.format(order="", call="composed(x, y)"), **PRELOADED)
    assert_only_finding(
        racy,
        code="SG001",
        kind="RAW",
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side("aten::add", "read", "default", "return x + 1"),
        size=4096,
    )


# Compiled without any library: the program that loads it has them all.
EXTENSION = """
#include <ATen/core/Tensor.h>
#include <torch/library.h>

extern "C" int cudaMemsetAsync(void* target, int value, size_t bytes, void* stream);

at::Tensor& clear_(at::Tensor& self) {
  cudaMemsetAsync(self.mutable_data_ptr(), 0, self.nbytes(), nullptr);
  return self;
}

TORCH_LIBRARY(late, library) { library.def("clear_(Tensor(a!) self) -> Tensor(a!)"); }
TORCH_LIBRARY_IMPL(late, CUDA, library) { library.impl("clear_", &clear_); }
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with one operator, compiled against the installed torch."""
    directory = tmp_path_factory.mktemp("late")
    (directory / "late.cc").write_text(EXTENSION)
    torch = importlib.util.find_spec("torch")
    assert torch is not None and torch.origin is not None
    include = Path(torch.origin).parent / "include"
    headers = ["-isystem", str(include), "-isystem", str(include / "torch/csrc/api/include")]
    command = ["g++", "-std=c++20", "-shared", "-fPIC", "-DNDEBUG", *headers, "late.cc"]
    subprocess.run([*command, "-o", "late.so"], cwd=directory, check=True)
    return directory / "late.so"


@pytest.mark.long
def test_operators_of_a_library_that_is_loaded_late_are_observed(
    tmp_path: Path, extension: Path
) -> None:
    """Its kernel launches by itself; the pair differs in the wait."""
    load = f"    torch.ops.load_library({str(extension)!r})\n"
    call = "torch.ops.late.clear_(x)"
    racy = run(tmp_path, OPS + load + CALL.format(order="", call=call), **PRELOADED)

    assert_only_finding(
        racy,
        code="SG003",
        kind="WAW",
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side("late::clear_", "write", "default", call),
        size=4096,
    )
    assert racy.coverage["unregistered_kernels"] == 0
    ordered = run(tmp_path, OPS + load + CALL.format(order=ORDER, call=call), **PRELOADED)
    assert_clean(ordered, ops_at_least=4)
