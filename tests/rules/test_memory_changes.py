"""Memory that changes hands without a new tensor, or in a pool of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.expect import assert_clean, pairs
from tests.rules.programs import run

START = """
    side = torch.cuda.Stream()
    pool = torch.cuda.MemPool()
    def plain():
        return torch.empty(1024, device="cuda")
    def in_pool():
        with torch.cuda.use_mem_pool(pool):
            return torch.empty(1024, device="cuda")
"""
REUSE = """
    x = {new}()
    x.zero_()
    address = x.data_ptr()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        total = x.sum()
    {order}
    {free}
    for _ in range(50):
        y = None
        y = {new}()
        if y.data_ptr() == address:
            break
    assert y.data_ptr() == address
    y.fill_(7)  # {free}
    torch.cuda.synchronize()
    del x, y
"""
ORDER = "torch.cuda.current_stream().wait_stream(side)"

# How the block is allocated, and how its bytes are given back, mostly while `x` lives on.
WAYS = [
    ("plain", "x.untyped_storage().resize_(0)"),
    ("plain", 'x.data = torch.empty(0, device="cuda")'),
    ("plain", 'x.set_(torch.empty(0, device="cuda"))'),
    ("plain", 'z = torch.empty(0, device="cuda"); torch.utils.swap_tensors(x, z); del z'),
    ("in_pool", "x = None"),
]


def reuse_program(order: str) -> str:
    """Free a block in each way while a side stream may still read it, and use its bytes again."""
    return START + "".join(REUSE.format(new=new, free=free, order=order) for new, free in WAYS)


@pytest.mark.parametrize("segments", ["False", "True"])
def test_a_block_given_back_in_use_is_found(tmp_path: Path, segments: str) -> None:
    """However the program let go of the bytes, their next use races with the old reader."""
    settings = {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{segments}"}
    outcome = run(tmp_path, reuse_program(""), **settings)

    assert pairs(outcome) == [
        ("SG004", "aten::sum", "aten::fill_", f"y.fill_(7)  # {free}", 4096) for _, free in WAYS
    ]


@pytest.mark.parametrize("segments", ["False", "True"])
def test_the_same_block_given_back_behind_a_wait_is_clean(tmp_path: Path, segments: str) -> None:
    """Each twin differs in one wait."""
    settings = {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{segments}"}
    assert_clean(run(tmp_path, reuse_program(ORDER), **settings), ops_at_least=15)


SHARED = """
    side = torch.cuda.Stream()
    x = torch.zeros(1024, device="cuda")
    y = torch.zeros(1024, device="cuda")
    {take}
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        y.fill_(1)
    {order}
    total = x.sum()  # {take}
    torch.cuda.synchronize()
"""
TAKES = ["x.set_(y)", "x.data = y.data", "x = torch.from_dlpack(y)"]


def taken_over(order: str) -> str:
    """Each way, one after the other; without an exchange nothing races either way."""
    return "".join(SHARED.format(take=take, order=order) for take in ("pass", *TAKES))


def test_bytes_taken_over_from_another_tensor_are_followed(tmp_path: Path) -> None:
    """The tensor reads where its new storage lies."""
    assert pairs(run(tmp_path, taken_over(""))) == [
        ("SG001", "aten::fill_", "aten::sum", f"total = x.sum()  # {take}", 4096) for take in TAKES
    ]


def test_bytes_taken_over_behind_a_wait_are_clean(tmp_path: Path) -> None:
    """The twins differ in the wait."""
    assert_clean(run(tmp_path, taken_over(ORDER)), ops_at_least=16)


MADE_LARGER = """
    side = torch.cuda.Stream()
    x = torch.ones(1024, device="cuda")
    out = torch.ones(2, device="cuda")
    torch.cuda.synchronize()
    torch.add(x, x, out=out)
    {order}
    with torch.cuda.stream(side):
        total = out.sum()
    torch.cuda.synchronize()
"""


def test_a_result_that_an_op_makes_larger_is_written_in_its_new_bytes(tmp_path: Path) -> None:
    """The smaller block is freed inside the op, which never writes it."""
    assert pairs(run(tmp_path, MADE_LARGER.format(order=""))) == [
        ("SG001", "aten::add", "aten::sum", "total = out.sum()", 4096)
    ]


def test_a_result_made_larger_and_read_behind_a_wait_is_clean(tmp_path: Path) -> None:
    """The twin differs in the wait."""
    order = "side.wait_stream(torch.cuda.current_stream())"
    assert_clean(run(tmp_path, MADE_LARGER.format(order=order)), ops_at_least=4)


def test_sharing_with_another_process_is_said(tmp_path: Path) -> None:
    """The other process's accesses are not seen; the virtual GPU refuses to share at all."""
    outcome = run(
        tmp_path,
        """
        x = torch.zeros(4, device="cuda")
        try:
            x.untyped_storage()._share_cuda_()
        except RuntimeError as error:
            print(error)
        """,
    )

    assert outcome.coverage["opaque"] == {
        "tensors shared with another process, whose accesses are not seen": 1
    }


FREED = """
    side = torch.cuda.Stream()
    x = torch.zeros(1024, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        total = x.sum()
    {order}
    del x
    torch.cuda.current_stream().wait_stream(side)
    hints = hooks.early_frees()
    kept = [(h["op"], h["access"], h["owner"], h["count"], h["frames"][0][2]) for h in hints]
    assert kept == {expected}, hints
"""
EARLY = [("aten::sum", "read", "default stream (device 0)", 1, "<module>")]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("", EARLY), ("x.record_stream(side)", []), (ORDER, [])],
)
def test_a_block_freed_in_use_is_hinted_at(
    tmp_path: Path, order: str, expected: list[tuple[object, ...]]
) -> None:
    """Nothing took the bytes, so nothing raced; only an order before the free makes it sure."""
    assert_clean(run(tmp_path, FREED.format(order=order, expected=expected)))
