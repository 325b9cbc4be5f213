"""The order of a schedule does not depend on how fast the other ranks are."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

# Rank 1 queues a collective, an op after it, and an op on a stream that waits for nothing.
_PROGRAM = """
from raw_cuda import *
from raw_nccl import *
import time
unique_id = new_id()
def body(rank):
    comm, data = join(unique_id, 2, rank), device_memory(4)
    s, t = new_stream(), new_stream()
    all_reduce(comm, data, s); sync(s)
    end = time.process_time() + {seconds}
    while rank == {slow_rank} and time.process_time() < end: pass
    all_reduce(comm, data, s); mark(s, "behind the collective"); mark(t, "alone")
    device_sync(); say(rank, order)
    leave(comm)
run_ranks(2, body)
"""


@pytest.mark.parametrize("slow_rank", [0, 1])
@pytest.mark.parametrize("schedule", ["eager", "lazy", "extreme:0,1", "extreme:1,0", "pct:4"])
def test_a_slow_peer_changes_no_order(run_vgpu: RunVgpu, schedule: str, slow_rank: int) -> None:
    """Both ranks run the same order, whichever of them comes late."""
    slow, fast = (
        run_vgpu(_PROGRAM.format(seconds=s, slow_rank=slow_rank), schedule=schedule)[0]
        for s in (0.3, 0)
    )

    orders = {line.partition(" ")[2] for line in slow.lines + fast.lines}
    assert (len(slow.lines), len(fast.lines), len(orders)) == (2, 2, 1)
