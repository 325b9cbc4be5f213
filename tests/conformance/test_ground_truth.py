"""Every call in the runtime's own log is accounted for: the difference is zero, kind by kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import jobs
from tests.conformance.jobs import logged, logged_ranks
from tests.conformance.test_api_log import TRAINING
from tests.conformance.watched import called, difference
from tests.rules.expect import assert_clean
from tests.rules.programs import Outcome

Log = tuple[Outcome, list[str]]


@pytest.mark.parametrize(
    ("start", "program", "kinds"),
    [
        pytest.param(logged, TRAINING + "step()\n", 5, id="prefetching"),
        pytest.param(logged, jobs.GRAPHS, 6, id="graphs"),
        pytest.param(logged, jobs.LOADER, 5, id="loader"),
        pytest.param(logged_ranks, jobs.DDP, 5, id="DDP"),
        pytest.param(logged_ranks, jobs.FSDP2, 5, id="FSDP2"),
    ],
)
def test_every_call_is_accounted_for(
    tmp_path: Path,
    start: Callable[[Path, str], Log | list[Log]],
    program: str,
    kinds: int,
) -> None:
    """Records, waits, syncs, copies, launches and replays; no launch lies outside an op."""
    started = start(tmp_path, program)
    for outcome, log in started if isinstance(started, list) else [started]:
        assert len(called(log)) == kinds
        assert difference(log, outcome.coverage) == {}
        assert not [name for name in outcome.coverage["opaque"] if "kernel" in name]
        assert outcome.coverage["launches_observed"]
        assert_clean(outcome, ops_at_least=10)


RAW_COPY = """
import ctypes
cudart = ctypes.CDLL(None)
x = torch.zeros(1024, device="cuda")
y = torch.zeros(1024, device="cuda")
side = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(side):
    x.fill_(1)
{order}
address = ctypes.c_void_p
cudart.cudaMemcpyAsync(address(y.data_ptr()), address(x.data_ptr()), ctypes.c_size_t(4096), 3, None)
"""


def test_a_copy_outside_of_operators_is_an_access(tmp_path: Path) -> None:
    """The addresses are in the call; the frames are those of the caller."""
    outcome, log = logged(tmp_path, RAW_COPY.format(order=""))

    found = [
        (
            f["code"],
            f["first"]["op"],
            f["second"]["op"],
            f["overlap"]["end"] - f["overlap"]["begin"],
        )
        for f in outcome.findings
    ]
    assert found == [("SG001", "aten::fill_", "cudaMemcpyAsync", 4096)]
    assert outcome.line_of(outcome.findings[0]["second"]).startswith("cudart.cudaMemcpyAsync(")
    assert outcome.coverage["raw_copies"] == 1
    assert difference(log, outcome.coverage) == {}


def test_an_ordered_copy_outside_of_operators_is_clean(tmp_path: Path) -> None:
    """The twin differs in one wait, which the program makes without torch as well."""
    order = """
event = ctypes.c_void_p()
cudart.cudaEventCreateWithFlags(ctypes.byref(event), 2)
cudart.cudaEventRecord(event, ctypes.c_void_p(side.cuda_stream))
cudart.cudaStreamWaitEvent(None, event, 0)
"""
    outcome, log = logged(tmp_path, RAW_COPY.format(order=order))

    assert_clean(outcome, ops_at_least=4)
    assert (outcome.coverage["untraced_records"], outcome.coverage["untraced_waits"]) == (1, 1)
    assert difference(log, outcome.coverage) == {}


def test_events_of_the_allocator_are_seen(tmp_path: Path) -> None:
    """A block that was recorded on another stream leaves an event there when it is freed."""
    program = """
x = torch.zeros(1024, device="cuda")
side = torch.cuda.Stream()
x.record_stream(side)
del x
"""
    outcome, log = logged(tmp_path, program)

    assert outcome.coverage["untraced_records"] == 1
    assert difference(log, outcome.coverage) == {}


DEEPSPEED = {
    "zero1": jobs.DEEPSPEED.replace("{arguments}", "--stage 1 --steps 2"),
    "zero2": jobs.DEEPSPEED.replace("{arguments}", "--stage 2 --steps 2"),
    "zero3": jobs.DEEPSPEED.replace("{arguments}", "--stage 3 --gather-all --steps 2"),
    "offload2": jobs.OFFLOAD.replace("{training}", "offload2"),
    "offload3": jobs.OFFLOAD.replace("{training}", "offload3"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", DEEPSPEED)
def test_every_call_of_deepspeed_is_accounted_for(tmp_path: Path, name: str) -> None:
    """Steps of ZeRO on two ranks, communication overlapped with backward."""
    for outcome, log in logged_ranks(tmp_path, DEEPSPEED[name]):
        assert len(called(log)) == 5
        assert difference(log, outcome.coverage) == {}
        assert not [name for name in outcome.coverage["opaque"] if "kernel" in name]
        assert_clean(outcome, ops_at_least=100)
