"""Functions of extensions that torch's dispatcher does not see, and what they touch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conformance.watched import PRELOADED
from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.extension_kernels import build
from tests.rules.programs import ROOT, Outcome, run

# NVIDIA's apex is on no package index: a package of its layout, and its class's call.
APPLIER = """
class MultiTensorApply:
    def __init__(self, chunk_size):
        self.chunk_size = chunk_size

    def __call__(self, op, noop_flag_buffer, tensor_lists, *args):
        return op(self.chunk_size, noop_flag_buffer, tensor_lists, *args)
"""
PACKAGE = """
from .multi_tensor_apply import MultiTensorApply

multi_tensor_applier = MultiTensorApply(2048 * 32)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the extension `amp_C` and a package `apex` that calls it."""
    folder = tmp_path_factory.mktemp("apex")
    build(folder, "amp_C")
    package = folder / "apex" / "multi_tensor_apply"
    package.mkdir(parents=True)
    (folder / "apex" / "__init__.py").touch()
    (package / "__init__.py").write_text(PACKAGE)
    (package / "multi_tensor_apply.py").write_text(APPLIER)
    return folder


def _run(tmp_path: Path, installed: Path, program: str) -> Outcome:
    path = os.pathsep.join(map(str, (ROOT, installed)))
    return run(tmp_path, START + program, **{**PRELOADED, "PYTHONPATH": path})


START = """
import tests.rules.extension_kernels
x = torch.zeros(1024, device="cuda")
y = torch.zeros(1024, device="cuda")
flag = torch.zeros(1, dtype=torch.int32, device="cuda")
side = torch.cuda.Stream()
torch.cuda.synchronize()
"""
SCALE = """
import amp_C
from apex.multi_tensor_apply import multi_tensor_applier
with torch.cuda.stream(side):
    x.fill_(1)
{order}
multi_tensor_applier(amp_C.multi_tensor_scale, flag, [[x], [y]], 2.0)
"""


def test_a_list_that_a_multi_tensor_function_reads_races(tmp_path: Path, installed: Path) -> None:
    """The call is an op of the function's name, and its launch is no opaque kernel."""
    outcome = _run(tmp_path, installed, SCALE.format(order=""))

    call = "multi_tensor_applier(amp_C.multi_tensor_scale, flag, [[x], [y]], 2.0)"
    assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side("multi_tensor_scale", "read", "default", call),
        size=4096,
    )
    assert outcome.coverage["opaque"] == {}


def test_an_ordered_multi_tensor_call_is_clean(tmp_path: Path, installed: Path) -> None:
    """The twin differs in one wait; the call is one op."""
    order = "torch.cuda.current_stream().wait_stream(side)"
    outcome = _run(tmp_path, installed, SCALE.format(order=order))

    assert_clean(outcome)
    assert (outcome.coverage["ops"], outcome.coverage["opaque"]) == (5, {})


NORM = """
from amp_C import multi_tensor_l2norm
with torch.cuda.stream(side):
    norm, _ = multi_tensor_l2norm(2048 * 32, flag, [[x]], False)
{order}
total = norm.sum()
"""


def test_what_a_direct_call_returns_was_written_by_it(tmp_path: Path, installed: Path) -> None:
    """No applier is needed; the pair differs in the wait."""
    racy = _run(tmp_path, installed, NORM.format(order=""))

    assert_only_finding(
        racy,
        code="SG001",
        kind="RAW",
        first=Side(
            "multi_tensor_l2norm",
            "write",
            "side",
            "norm, _ = multi_tensor_l2norm(2048 * 32, flag, [[x]], False)",
        ),
        second=Side("aten::sum", "read", "default", "total = norm.sum()"),
        size=4,
    )
    order = "torch.cuda.current_stream().wait_stream(side)"
    assert_clean(_run(tmp_path, installed, NORM.format(order=order)))


@pytest.mark.parametrize(
    ("function", "call", "kernel"),
    [
        ("multi_tensor_other", "flag, [[x]]", "other_kernel"),
        ("multi_tensor_scale", "flag, [[x], [y], [y]], 2.0", "scale_kernel"),
    ],
    ids=["function", "lists"],
)
def test_what_is_not_known_is_counted_and_not_guessed(
    tmp_path: Path, installed: Path, function: str, call: str, kernel: str
) -> None:
    """A function without a row, or with more lists than its row has, touches nothing."""
    program = f"""
import amp_C
from apex.multi_tensor_apply import multi_tensor_applier
with torch.cuda.stream(side):
    x.fill_(1)
multi_tensor_applier(amp_C.{function}, {call})
"""
    outcome = _run(tmp_path, installed, program)

    assert_clean(outcome)
    assert outcome.coverage["opaque"] == {
        f"extension function {function}": 1,
        f"kernel {kernel}": 1,
    }
