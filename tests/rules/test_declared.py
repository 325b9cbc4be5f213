"""`streamguard.access`: what kernels of one's own touch."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamguard
from tests.conformance.watched import PRELOADED
from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run

# cudaMemsetAsync stands for a kernel of one's own: outside of operators it is an op by itself,
# inside a declaration only what was declared counts.
OWN = """
import ctypes, streamguard
cudart = ctypes.CDLL(None)
def launch(t, s):
    address, handle = ctypes.c_void_p(t.data_ptr()), ctypes.c_void_p(s.cuda_stream)
    cudart.cudaMemsetAsync(address, 0, ctypes.c_size_t(t.nbytes), handle)
x = torch.zeros(1024, device="cuda")
y = torch.zeros(1024, device="cuda")
side = torch.cuda.Stream()
torch.cuda.synchronize()
"""
BLOCK = """
with torch.cuda.stream(side):
    x.fill_(1)
{order}
with streamguard.access(reads=[x], writes=[y], name="my kernel"):
    launch(y, torch.cuda.current_stream())
"""


def test_a_declared_read_races_like_an_operators(tmp_path: Path) -> None:
    """The op carries the given name and the line of the block."""
    assert_only_finding(
        run(tmp_path, OWN + BLOCK.format(order=""), **PRELOADED),
        code="SG001",
        kind="RAW",
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side(
            "my kernel",
            "read",
            "default",
            'with streamguard.access(reads=[x], writes=[y], name="my kernel"):',
        ),
        size=4096,
    )


def test_an_ordered_declaration_is_clean(tmp_path: Path) -> None:
    """The twin differs in one wait; the launch inside is the declared op and no second one."""
    order = "torch.cuda.current_stream().wait_stream(side)"
    outcome = run(tmp_path, OWN + BLOCK.format(order=order), **PRELOADED)

    assert_clean(outcome)
    assert (outcome.coverage["ops"], outcome.coverage["raw_copies"]) == (4, 0)


DECORATED = """
@streamguard.access(reads=["inputs"], writes=["output"], stream=side)
def combine(inputs, output, scale=2):
    launch(output, side)
{order}
combine([x, None], output=y)
torch.cuda.current_stream().synchronize()
total = y.sum()
"""


def test_a_decorated_function_declares_its_arguments(tmp_path: Path) -> None:
    """The op runs on the given stream, whichever is current."""
    assert_only_finding(
        run(tmp_path, OWN + DECORATED.format(order=""), **PRELOADED),
        code="SG001",
        kind="RAW",
        first=Side("combine", "write", "side", "combine([x, None], output=y)"),
        second=Side("aten::sum", "read", "default", "total = y.sum()"),
        size=4096,
    )


@pytest.mark.parametrize("given", ["nothing", 3])
def test_a_decorator_refuses_what_is_no_parameter(given: object) -> None:
    """A misspelt name would silently declare nothing."""
    with pytest.raises(streamguard.UsageError, match=repr(given)):

        @streamguard.access(reads=[given])  # type: ignore[list-item]  # the mistake under test
        def launch(x: object) -> None: ...


def test_names_are_refused_in_a_block() -> None:
    """Names stand for parameters, and a block has none."""
    with pytest.raises(streamguard.UsageError, match="'x'"), streamguard.access(writes=["x"]):
        pass
