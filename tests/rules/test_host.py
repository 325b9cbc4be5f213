"""The host's own accesses: pinned and pageable memory against copies in flight."""

from pathlib import Path

import pytest

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run


def host_write_program(order: str) -> str:
    """Copy pinned memory to the device and then write the host side, with `order` between."""
    return f"""
        pinned = torch.zeros(1024).pin_memory()
        x = torch.empty(1024, device="cuda")
        x.copy_(pinned, non_blocking=True)
        {order}
        pinned.fill_(1)
    """


def test_host_write_while_the_copy_is_in_flight_is_reported(tmp_path: Path) -> None:
    """The host may not touch pinned memory that an asynchronous copy still reads."""
    outcome = run(tmp_path, host_write_program(""))

    finding = assert_only_finding(
        outcome,
        code="SG005",
        kind="WAR",
        first=Side("aten::copy_", "read", "default", "x.copy_(pinned, non_blocking=True)"),
        second=Side("aten::fill_", "write", "host", "pinned.fill_(1)"),
        size=4096,
    )
    assert finding["domain"] == "host"


@pytest.mark.parametrize(
    "order",
    ["torch.cuda.synchronize()", "torch.cuda.current_stream().synchronize()", "x.sum().item()"],
)
def test_host_write_after_a_host_wait_is_clean(tmp_path: Path, order: str) -> None:
    """Any wait of the host for the copy's stream, an `item()` too, ends the copy."""
    assert_clean(run(tmp_path, host_write_program(order)), ops_at_least=2)


def download_program(non_blocking: bool) -> str:
    """Copy to pinned memory and read it on the host."""
    return f"""
        x = torch.ones(1024, device="cuda")
        pinned = torch.empty(1024, pin_memory=True)
        pinned.copy_(x, non_blocking={non_blocking})
        total = pinned.sum()
    """


def test_host_read_of_an_unfinished_download_is_reported(tmp_path: Path) -> None:
    """A non_blocking copy to pinned memory has not arrived when the call returns."""
    outcome = run(tmp_path, download_program(True))

    assert_only_finding(
        outcome,
        code="SG005",
        kind="RAW",
        first=Side("aten::copy_", "write", "default", "pinned.copy_(x, non_blocking=True)"),
        second=Side("aten::sum", "read", "host", "total = pinned.sum()"),
        size=4096,
    )


def test_blocking_download_into_pinned_memory_is_clean(tmp_path: Path) -> None:
    """A blocking copy waits for itself, although torch traces that wait before the copy."""
    assert_clean(run(tmp_path, download_program(False)), ops_at_least=3)


def test_pageable_memory_is_never_in_flight(tmp_path: Path) -> None:
    """CUDA stages pageable sources and waits for pageable destinations, non_blocking or not."""
    outcome = run(
        tmp_path,
        """
        host = torch.zeros(1024)
        x = torch.empty(1024, device="cuda")
        x.copy_(host, non_blocking=True)
        host.fill_(1)
        host.copy_(x, non_blocking=True)
        total = host.sum()
        """,
    )

    assert_clean(outcome, ops_at_least=2)


def test_download_to_pageable_memory_is_a_host_wait(tmp_path: Path) -> None:
    """What the stream did before such a copy is known to be over, for pinned memory too."""
    outcome = run(
        tmp_path,
        """
        pinned = torch.zeros(1024).pin_memory()
        x = torch.empty(1024, device="cuda")
        x.copy_(pinned, non_blocking=True)
        host = torch.empty(1024)
        host.copy_(x, non_blocking=True)
        pinned.fill_(1)
        """,
    )

    assert_clean(outcome, ops_at_least=2)


def test_copy_that_needs_a_host_temporary_leaves_the_pinned_source_free(tmp_path: Path) -> None:
    """torch stages a strided pinned source through pageable memory, so the host may write it."""
    outcome = run(
        tmp_path,
        """
        pinned = torch.zeros(64, 64).pin_memory()
        x = torch.empty(64, 64, device="cuda")
        x.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()
        x[:, :32].copy_(pinned[:, 32:], non_blocking=True)
        pinned.fill_(1)
        """,
    )

    assert_clean(outcome, ops_at_least=3)


def test_prefetcher_with_fresh_pinned_batches_is_clean(tmp_path: Path) -> None:
    """DataLoader(pin_memory=True) with non_blocking copies reuses pinned blocks only when safe."""
    outcome = run(
        tmp_path,
        """
        data = torch.utils.data.TensorDataset(torch.randn(400, 64), torch.randn(400, 8))
        loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
        copy_stream = torch.cuda.Stream()
        weight = torch.zeros(64, 8, device="cuda")

        def upload(batch):
            with torch.cuda.stream(copy_stream):
                return [part.to("cuda", non_blocking=True) for part in batch]

        batches = iter(loader)
        following = upload(next(batches))
        steps = 0
        while following is not None:
            torch.cuda.current_stream().wait_stream(copy_stream)
            features, target = following
            for part in following:
                part.record_stream(torch.cuda.current_stream())
            batch = next(batches, None)
            following = upload(batch) if batch is not None else None
            error = features @ weight - target
            weight.sub_(features.t() @ error, alpha=0.001)
            steps += 1
        assert steps == 50
        """,
    )

    assert_clean(outcome, ops_at_least=300)


def test_prefetcher_that_forgets_the_wait_is_reported(tmp_path: Path) -> None:
    """The same upload used without waiting for the copy stream is a read-after-write."""
    outcome = run(
        tmp_path,
        """
        copy_stream = torch.cuda.Stream()
        pinned = torch.zeros(8, 64).pin_memory()
        with torch.cuda.stream(copy_stream):
            features = pinned.to("cuda", non_blocking=True)
        total = features.sum()
        """,
    )

    assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side(
            "aten::copy_", "write", "side", 'features = pinned.to("cuda", non_blocking=True)'
        ),
        second=Side("aten::sum", "read", "default", "total = features.sum()"),
        size=2048,
    )
