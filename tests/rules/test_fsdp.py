"""FSDP2: an unsharded parameter is memory of its own, filled by `unshard`, freed by `reshard`."""

from pathlib import Path

from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import run_ranks

UNSHARDED = """
    from torch.distributed.fsdp import fully_shard
    layer = torch.nn.Linear(64, 64, bias=False, device="cuda")
    fully_shard(layer)
    side = torch.cuda.Stream()
    layer.unshard()
    whole = layer.weight
    with torch.cuda.stream(side):
        {wait}
        total = whole.sum()
    torch.cuda.current_stream().wait_stream(side)
    layer.reshard()
"""


def test_an_unsharded_parameter_read_on_another_stream_is_found(tmp_path: Path) -> None:
    """`unshard` makes only its own stream wait for the gathered bytes, and copies them there."""
    for outcome in run_ranks(tmp_path, UNSHARDED.format(wait="pass")):
        assert_only_finding(
            outcome,
            code="SG001",
            kind="RAW",
            first=Side("aten::split_with_sizes_copy", "write", "default", "layer.unshard()"),
            second=Side("aten::sum", "read", "side", "total = whole.sum()"),
            size=64 * 64 * 4,
        )


def test_one_that_waited_is_clean(tmp_path: Path) -> None:
    """The twin waits for the stream that unsharded."""
    wait = "side.wait_stream(torch.cuda.default_stream())"
    for outcome in run_ranks(tmp_path, UNSHARDED.format(wait=wait)):
        assert_clean(outcome, ops_at_least=4)
