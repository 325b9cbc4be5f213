"""The audit says what it did not see: NCCL calls that no op of torch.distributed made."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import clean_environment, streamguard
from tests.collectives.launch import PROGRAMS


@pytest.mark.parametrize(
    ("variant", "expected"), [("raw", {"ncclAllReduce": 2, "ncclBcast": 1}), ("plain", {})]
)
def test_raw_nccl_calls_are_counted(variant: str, expected: dict[str, int], tmp_path: Path) -> None:
    """Those of recorded collectives, barriers among them, are not."""
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    result = streamguard(
        "audit", "--vgpu", "1", "--json", "--", sys.executable, str(PROGRAMS / "raw_nccl.py"),
        variant, cwd=tmp_path,
        environ=clean_environment(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", **rank),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    audit = json.loads(result.stdout.splitlines()[-1])

    assert audit["unrecorded"] == expected
    assert audit["recorded"] == 3
