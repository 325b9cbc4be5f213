"""`torch._foreach_copy_` between pinned memory and a device."""

from pathlib import Path

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run

COPY = "torch._foreach_copy_(pinned, on_device, non_blocking=True)"


def download_program(order: str) -> str:
    """Copy a list to pinned memory and read it on the host."""
    return f"""
        on_device = [torch.ones(1024, device="cuda") for _ in range(2)]
        pinned = [torch.empty(1024, pin_memory=True) for _ in range(2)]
        {COPY}
        {order}
        total = pinned[1].sum()
    """


def test_a_list_copied_to_pinned_memory_is_in_flight(tmp_path: Path) -> None:
    """Each pair of the list is a copy of its own."""
    assert_only_finding(
        run(tmp_path, download_program("pass")),
        code="SG005",
        kind="RAW",
        first=Side("aten::copy_", "write", "default", COPY),
        second=Side("aten::sum", "read", "host", "total = pinned[1].sum()"),
        size=4096,
    )


def test_a_list_waited_for_is_clean(tmp_path: Path) -> None:
    """The twin differs in one wait."""
    outcome = run(tmp_path, download_program("torch.cuda.current_stream().synchronize()"))

    assert_clean(outcome, ops_at_least=5)


def test_a_list_on_one_device_is_one_op(tmp_path: Path) -> None:
    """Two tensors are made twice, and one kernel copies both."""
    program = """
        first = [torch.ones(1024, device="cuda") for _ in range(2)]
        second = [torch.ones(1024, device="cuda") for _ in range(2)]
        torch._foreach_copy_(first, second)
    """
    outcome = run(tmp_path, program)

    assert_clean(outcome)
    assert outcome.coverage["ops"] == 5
