"""CUPTI's callbacks tell what the preloaded library tells, where nothing was preloaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import jobs
from tests.conformance.jobs import logged, logged_ranks
from tests.conformance.test_api_log import TRAINING
from tests.conformance.watched import PRELOADED, called, difference
from tests.rules.expect import Side, assert_clean, assert_only_finding
from tests.rules.programs import Outcome

CUPTI = {"STREAMGUARD_CUPTI": "1"}
LAYERS = ["observer", "gputrace", "allocator", "c10d"]

Log = tuple[Outcome, list[str]]

# Kinds of calls that both layers count; queries of libraries depend on timing.
COUNTS = (
    "ops", "accesses", "records", "waits", "syncs", "launches", "copies", "raw_copies",
    "untraced_records", "untraced_waits", "untraced_syncs", "graph_replays",
)  # fmt: skip


def _counts(outcome: Outcome) -> dict[str, Any]:
    return {name: outcome.coverage[name] for name in COUNTS}


def _is_quiet(log: list[str]) -> bool:
    """Whether no CUDA call was made in a callback."""
    return not [line for line in log if line.startswith("call_in_callback")]


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
    start: Callable[..., Log | list[Log]],
    program: str,
    kinds: int,
) -> None:
    """Nothing differs from the runtime's own log; no op's launch is opaque, no callback calls."""
    started = start(tmp_path, program, hearing=CUPTI)

    for outcome, log in started if isinstance(started, list) else [started]:
        assert len(called(log)) == kinds
        assert difference(log, outcome.coverage) == {}
        assert not [name for name in outcome.coverage["opaque"] if "kernel" in name]
        assert outcome.coverage["layers"] == [*LAYERS, "cupti"]
        assert outcome.coverage["launches_observed"]
        assert _is_quiet(log)
        assert_clean(outcome, ops_at_least=10)


# Calls that no operator of torch makes; `raw(name, ...)` makes one that must succeed.
RAW = """
import ctypes
cudart = ctypes.CDLL(None)
P, N = ctypes.c_void_p, ctypes.c_size_t

def raw(name, *arguments):
    status = getattr(cudart, name)(*arguments)
    assert status == 0, (name, status)

def made(name, *arguments):
    handle = P()
    raw(name, ctypes.byref(handle), *arguments)
    return handle

x = torch.zeros(1024, device="cuda")
y = torch.zeros(1024, device="cuda")
side = torch.cuda.Stream()
torch.cuda.synchronize()
"""

MANY = (
    RAW
    + """
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

class Configuration(ctypes.Structure):
    _fields_ = [("grid", Dim3), ("block", Dim3), ("shared", N), ("stream", P), ("attributes", P),
                ("count", ctypes.c_uint)]

one = Dim3(1, 1, 1)
host_function = P(0x1234)
cudart.__cudaRegisterFunction(None, host_function, None, b"_Z4mineif", -1, *[None] * 5)
handle = made("__cudaGetKernel", host_function)
s = P(side.cuda_stream)
raw("cudaLaunchKernel", host_function, one, one, None, N(0), s)
raw("cudaLaunchKernel", host_function, one, one, None, N(0), None)
raw("__cudaLaunchKernel", handle, one, one, None, N(0), s)
configuration = Configuration(one, one, 0, side.cuda_stream, None, 0)
raw("cudaLaunchKernelExC", ctypes.byref(configuration), host_function, None)
a, b = P(x.data_ptr()), P(y.data_ptr())
pageable = (ctypes.c_char * 64)()
raw("cudaMemcpy", pageable, a, N(64), 2)
raw("cudaMemcpyPeerAsync", b, 0, a, 0, N(64), None)
raw("cudaMemset", a, 0, N(64))
raw("cudaMemsetAsync", b, 0, N(64), None)
event = made("cudaEventCreateWithFlags", ctypes.c_uint(2))
raw("cudaEventRecord", event, s)
raw("cudaEventRecordWithFlags", event, s, ctypes.c_uint(0))
raw("cudaStreamWaitEvent", None, event, ctypes.c_uint(0))
raw("cudaEventSynchronize", event)
raw("cudaEventQuery", event)
raw("cudaStreamSynchronize", s)
raw("cudaStreamQuery", s)
raw("cudaDeviceSynchronize")
assert cudart.cudaMemsetAsync(b, 0, N(64), P(12345)) == 400
"""
)


def test_raw_calls_are_heard_as_the_preloaded_library_hears_them(tmp_path: Path) -> None:
    """Launches by name, copies, fills, events, waits of the host, queries; not what failed."""
    heard, log = logged(tmp_path, MANY, hearing=CUPTI)
    preloaded, _ = logged(tmp_path, MANY, hearing=PRELOADED)

    assert difference(log, heard.coverage) == {}
    assert heard.coverage["opaque"] == {
        "kernel mine": 3,
        "kernel unnamed kernel": 1,
        "queries by libraries, which order nothing": 2,
    }
    assert heard.coverage["raw_copies"] == 4
    assert (heard.coverage["untraced_records"], heard.coverage["untraced_waits"]) == (2, 1)
    assert heard.coverage["untraced_syncs"] == 3
    assert _counts(heard) == _counts(preloaded)
    assert heard.coverage["opaque"] == preloaded.coverage["opaque"]
    assert heard.findings == preloaded.findings == []
    assert _is_quiet(log)


COPY = """
with torch.cuda.stream(side):
    x.fill_(1)
{order}
raw("cudaMemcpyAsync", P(y.data_ptr()), P(x.data_ptr()), N(4096), 3, None)
z = torch.zeros(1, device="cuda")
"""
COPY_CALL = 'raw("cudaMemcpyAsync", P(y.data_ptr()), P(x.data_ptr()), N(4096), 3, None)'
RAW_CALL = "status = getattr(cudart, name)(*arguments)"
EVENT = """
event = made("cudaEventCreateWithFlags", ctypes.c_uint(2))
raw("cudaEventRecord", event, P(side.cuda_stream))
"""


def test_a_raw_copy_races(tmp_path: Path) -> None:
    """Both sides are in the call; the next op tells of the finding, since a callback must not."""
    told = COPY.replace("\nz =", "\nassert announced == []\nz =") + "assert announced == [0]\n"
    outcome, log = logged(tmp_path, RAW + told.format(order=EVENT), hearing=CUPTI)

    found = assert_only_finding(
        outcome,
        code="SG001",
        kind="RAW",
        first=Side("aten::fill_", "write", "side", "x.fill_(1)"),
        second=Side("cudaMemcpyAsync", "read", "default", RAW_CALL),
        size=4096,
    )
    assert outcome.lines_of(found["second"]) == [RAW_CALL, COPY_CALL]
    assert _is_quiet(log)


def test_a_raw_wait_orders_it(tmp_path: Path) -> None:
    """The twin differs in one call, of the runtime too."""
    order = EVENT + 'raw("cudaStreamWaitEvent", None, event, ctypes.c_uint(0))'
    outcome, log = logged(tmp_path, RAW + COPY.format(order=order), hearing=CUPTI)

    assert_clean(outcome, ops_at_least=5)
    assert _is_quiet(log)


FENCED = """
mine = made("cudaStreamCreateWithFlags", ctypes.c_uint({flags}))
raw("cudaMemsetAsync", P(x.data_ptr()), 1, N(4096), mine)
z = x + y
"""


@pytest.mark.parametrize(("flags", "codes"), [(0, []), (1, ["SG001"])])
def test_flags_of_a_stream_that_only_raw_calls_use(
    tmp_path: Path, flags: int, codes: list[str]
) -> None:
    """The default stream waits for a blocking stream and not for a non-blocking one (HB-07)."""
    outcome, log = logged(tmp_path, RAW + FENCED.format(flags=flags), hearing=CUPTI)

    assert [finding["code"] for finding in outcome.findings] == codes
    assert _is_quiet(log)


TO_HOST = """
pinned = {allocation}
raw("cudaMemcpyAsync", pinned, P(x.data_ptr()), N(4096), {kind}, P(side.cuda_stream))
x.fill_(1)
"""
ALLOCATIONS = {
    "cudaHostAlloc": 'made("cudaHostAlloc", N(4096), ctypes.c_uint(0))',
    "cudaMallocHost": 'made("cudaMallocHost", N(4096))',
    "torch": "P(torch.zeros(1024).pin_memory().data_ptr())",
    "registered": (
        '(ctypes.c_char * 4096)()\nraw("cudaHostRegister", pinned, N(4096), ctypes.c_uint(0))'
    ),
}


@pytest.mark.parametrize("kind", [2, 4])
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_copy_to_pinned_memory_is_not_waited_for(
    tmp_path: Path, allocation: str, kind: int
) -> None:
    """The host goes on at once, and the next write races with the copy's read (HB-10)."""
    program = RAW + TO_HOST.format(allocation=ALLOCATIONS[allocation], kind=kind)
    outcome, log = logged(tmp_path, program, hearing=CUPTI)

    found = [(f["code"], f["first"]["op"], f["second"]["op"]) for f in outcome.findings]
    assert found == [("SG002", "cudaMemcpyAsync", "aten::fill_")]
    assert _is_quiet(log)


@pytest.mark.parametrize("kind", [2, 4])
def test_a_copy_to_pageable_memory_is_waited_for(tmp_path: Path, kind: int) -> None:
    """The twin differs in the memory: it was pinned, and is no longer."""
    was_pinned = ALLOCATIONS["registered"] + '\nraw("cudaHostUnregister", pinned)'
    program = RAW + TO_HOST.format(allocation=was_pinned, kind=kind)
    outcome, log = logged(tmp_path, program, hearing=CUPTI)

    assert_clean(outcome, ops_at_least=3)
    assert outcome.coverage["raw_copies"] == 1
    assert _is_quiet(log)


OTHER_DEVICE = """
there = torch.zeros(1024, device="cuda:1")
torch.cuda.synchronize(1)
torch.cuda.set_device(1)
raw("cudaMemsetAsync", P(there.data_ptr()), 1, N(4096), None)
torch.cuda.set_device(0)
with torch.cuda.device(1):
    z = there + there
"""


def test_the_default_stream_is_that_of_the_current_device(tmp_path: Path) -> None:
    """The context of a callback says which one; the op that follows there is ordered."""
    outcome, log = logged(tmp_path, RAW + OTHER_DEVICE, hearing=CUPTI, devices=2)

    by_device = [(s["device"], s["handle"], s["ops"]) for s in outcome.coverage["streams"]]
    assert (1, 0, 3) in by_device
    assert_clean(outcome, ops_at_least=5)
    assert _is_quiet(log)


PEER = """
there = torch.zeros(1024, device="cuda:1")
torch.cuda.synchronize(1)
with torch.cuda.stream(side):
    x.fill_(1)
{order}
there.copy_(x)
with torch.cuda.device(1):
    z = there + there
y.copy_(there)
"""


@pytest.mark.parametrize(
    ("order", "count"), [("", 1), ("torch.cuda.current_stream().wait_stream(side)", 0)]
)
def test_an_op_that_records_and_waits_by_itself(tmp_path: Path, order: str, count: int) -> None:
    """A copy between devices hears of its own events when torch traces them, as without CUPTI."""
    program = RAW + PEER.format(order=order)
    heard, log = logged(tmp_path, program, hearing=CUPTI, devices=2)
    preloaded, _ = logged(tmp_path, program, hearing=PRELOADED, devices=2)

    assert len(heard.findings) == count
    assert [f["code"] for f in heard.findings] == [f["code"] for f in preloaded.findings]
    assert _counts(heard) == _counts(preloaded)
    assert difference(log, heard.coverage) == {}
    assert _is_quiet(log)
