"""A program with more distinct races than are kept."""

from __future__ import annotations

from pathlib import Path

from tests.rules.programs import run

STREAMS = 64  # torch's pools: 32 of each priority
LISTED = 10_000
LINES = 160
LEFT_OUT = "races of pairs beyond the first 10000"

WRITES = f"""
streams = [torch.cuda.Stream(priority=-(i % 2)) for i in range({STREAMS})]
tensors = [torch.zeros(16, device="cuda") for _ in streams]
torch.cuda.synchronize()
for stream, tensor in zip(streams, tensors):
    with torch.cuda.stream(stream):
        tensor.add_(1)
"""


def outcome(directory: Path, lines: int) -> tuple[int, int]:
    """How many findings are listed, and how many races were only counted."""
    directory.mkdir()
    # Every line reads what every stream wrote: a pair of its own with each.
    done = run(directory, WRITES + "torch._foreach_neg(tensors)\n" * lines)
    return len(done.findings), done.coverage["opaque"].get(LEFT_OUT, 0)


def test_findings_beyond_ten_thousand_are_counted_and_not_listed(tmp_path: Path) -> None:
    """160 lines after 64 streams make 10,240 pairs; 2 lines make 128, all of them listed."""
    assert outcome(tmp_path / "many", LINES) == (LISTED, STREAMS * LINES - LISTED)
    assert outcome(tmp_path / "few", 2) == (2 * STREAMS, 0)
