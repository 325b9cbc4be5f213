"""What a rank says of its NCCL streams when a collective waits too long."""

from __future__ import annotations

import json

from streamguard.collectives.stream_heads import stream_head_lines


def entry(number: int, group: str, op: str, state: str, *, retired: bool = False) -> object:
    """A call as the Flight Recorder tells it."""
    return {
        "record_id": number, "process_group": [group, "desc"], "profiling_name": f"nccl:{op}",
        "state": state, "retired": retired,
    }  # fmt: skip


def test_the_oldest_call_that_has_not_completed_is_named() -> None:
    """One line per group; completed calls and calls of a group that is gone say nothing."""
    entries = [
        entry(0, "0", "all_reduce", "completed", retired=True),
        entry(3, "0", "all_reduce", "scheduled"),  # the ring's newest may stand first
        entry(1, "0", "all_gather", "started"),
        entry(2, "7", "broadcast", "scheduled"),
        entry(4, "9", "all_reduce", "scheduled", retired=True),
    ]

    lines = stream_head_lines({"0": "dp"}, lambda: json.dumps({"entries": entries}))

    assert lines == [
        "NCCL stream of dp: runs all_gather, 1 behind it",
        "NCCL stream of 7: waits to run broadcast",
    ]


def test_without_a_recorder_there_is_nothing_to_say() -> None:
    """Gloo, or `TORCH_FR_BUFFER_SIZE=0`."""
    assert stream_head_lines({}, lambda: "{}") == []
