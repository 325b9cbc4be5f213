"""The audit calls buffers what the hooks call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.collectives.audit import Row, audit_rank
from streamguard.collectives.record import read_logs
from tests.collectives.launch import launch


def _gradient_rows(output: Path, **environ: str) -> tuple[str, list[Row]]:
    outcome = launch(
        "../../../examples/train_zero2.py", "--stage", "2", "--steps", "3", ranks=2, output=output,
        STREAMGUARD_AUDIT="1", **environ,
    )  # fmt: skip
    assert outcome.statuses == [0, 0], outcome.text[-3000:]
    audit = audit_rank(read_logs(output)[0])
    rows = [row for row in audit.rows if row.phase == "gradients"]
    return outcome.texts[0], rows


@pytest.mark.long
def test_gradients_are_reduced_in_named_buckets(tmp_path: Path) -> None:
    """With the hooks the all_reduce of the gradients names DeepSpeed's buckets, else nothing."""
    text, rows = _gradient_rows(tmp_path / "named", STREAMGUARD="1")
    _, bare = _gradient_rows(tmp_path / "bare")

    assert [row.op for row in rows] == ["all_reduce"]
    assert rows[0].buffers
    assert all("ipg_buckets[" in name and "].buffer[" in name for name in rows[0].buffers)
    assert f"gradients all_reduce: {rows[0].buffers[0]}" in text
    assert [row.buffers for row in bare] == [()]
