"""Kernels on two streams: what overlaps, and what orders it."""

from pathlib import Path

import pytest

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run


def side_stream_program(order: str) -> str:
    """Write on a side stream and read on the default stream, with `order` between."""
    return f"""
        side = torch.cuda.Stream()
        x = torch.zeros(1024, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.add_(1)
        {order}
        y = x * 2
    """


def test_read_without_wait_for_the_writing_stream_is_reported(tmp_path: Path) -> None:
    """A kernel that reads what a side stream wrote, with nothing between, is a read-after-write."""
    outcome = run(tmp_path, side_stream_program(""))

    finding = assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::add_", "write", "side", "x.add_(1)"),
        second=Side("aten::mul", "read", "default", "y = x * 2"),
        size=4096,
    )
    assert finding["missing"]["last_wait"] is None
    assert not finding["missing"]["event_after_first"]


@pytest.mark.parametrize(
    "order",
    [
        "torch.cuda.current_stream().wait_stream(side)",
        "torch.cuda.current_stream().wait_event(side.record_event())",
        "side.synchronize()",
        "side.record_event().synchronize()",
        "torch.cuda.synchronize()",
    ],
)
def test_each_way_to_wait_orders_the_read(tmp_path: Path, order: str) -> None:
    """One wait of the stream or of the host between the two kernels makes the program clean."""
    assert_clean(run(tmp_path, side_stream_program(order)), ops_at_least=3)


def test_event_that_nobody_waits_for_is_named_in_the_missing_order(tmp_path: Path) -> None:
    """A record after the write orders nothing, but says that one wait would be enough."""
    outcome = run(tmp_path, side_stream_program("event = side.record_event()"))

    assert [f["code"] for f in outcome.findings] == ["SG001"]
    assert outcome.findings[0]["missing"]["event_after_first"]


def test_repeats_of_one_pair_are_counted_once(tmp_path: Path) -> None:
    """The same two lines racing in every iteration are one finding with a count, told once."""
    outcome = run(
        tmp_path,
        """
        side = torch.cuda.Stream()
        x = torch.zeros(256, device="cuda")
        y = torch.empty_like(x)
        for _ in range(5):
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                x.add_(1)
            torch.mul(x, 2, out=y)
        """,
    )

    assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::add_", "write", "side", "x.add_(1)"),
        second=Side("aten::mul", "read", "default", "torch.mul(x, 2, out=y)"),
        size=1024,
        count=5,
    )


def views_program(second_view: str) -> str:
    """Write two views of one storage on two streams."""
    return f"""
        side = torch.cuda.Stream()
        base = torch.zeros(8, 16, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            base[:, 0:8].fill_(1)
        {second_view}.fill_(2)
    """


def test_overlapping_views_of_one_storage_are_reported(tmp_path: Path) -> None:
    """Two views that share bytes race although they are different tensors."""
    outcome = run(tmp_path, views_program("base[:, 7:16]"))

    assert_only_finding(
        outcome,
        code="SG003",
        kind="WAW",
        first=Side("aten::fill_", "write", "side", "base[:, 0:8].fill_(1)"),
        second=Side("aten::fill_", "write", "default", "base[:, 7:16].fill_(2)"),
        size=4,
    )


def test_strided_views_that_share_no_byte_are_clean(tmp_path: Path) -> None:
    """Columns of one matrix interleave in memory and still share no byte."""
    assert_clean(run(tmp_path, views_program("base[:, 8:16]")), ops_at_least=3)


@pytest.mark.parametrize(
    ("first", "second", "size"),
    [
        ("base[::2]", "base[1::2]", 0),
        ("base[::2, ::3]", "base[::2, 1::3]", 0),
        ("base[::2, ::3]", "base[::2, ::2]", 4),
        ("base[1:3, :, None].expand(2, 12, 5)", "base[0]", 0),
        ("base.t()", "base[11, 11:]", 4),
        ("base.view(3, 4, 3, 4)[0, :, 0, ::2]", "base.view(3, 4, 3, 4)[1, :, 0, ::2]", 0),
        ("base.view(3, 4, 3, 4)[:, 1, :, ::2]", "base.view(3, 4, 3, 4)[:, 1, :, 1::2]", 0),
        ("base.view(3, 4, 3, 4)[:, 1, :, ::2]", "base.view(3, 4, 3, 4)[2, :, 2, 2]", 4),
        ("base[0:0]", "base", 0),
    ],
)
def test_views_race_exactly_when_they_share_a_byte(
    tmp_path: Path, first: str, second: str, size: int
) -> None:
    """Whatever the strides, a write and a read conflict only in bytes that both views address."""
    outcome = run(
        tmp_path,
        f"""
        side = torch.cuda.Stream()
        base = torch.zeros(12, 12, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.sum({first})
        {second}.fill_(2)
        """,
    )
    overlaps = [f["overlap"]["end"] - f["overlap"]["begin"] for f in outcome.findings]

    assert overlaps == ([size] if size else [])
