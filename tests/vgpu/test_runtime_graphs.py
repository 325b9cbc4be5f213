"""Captured graphs: forks, joins, replay, and the calls that a capture forbids."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_IMPORT = """
from raw_cuda import *
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2

def begin(stream, mode=GLOBAL):
    ok("cudaStreamBeginCapture", stream, mode)

def end(stream):
    graph = Pointer()
    return call("cudaStreamEndCapture", stream, ctypes.byref(graph)), graph

def instantiate(graph):
    executable = Pointer()
    ok("cudaGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    return executable

s, t, e, f = new_stream(), new_stream(), new_event(), new_event()
"""
_FORK = """
begin(s)
mark(s, "a"); record(e, s); wait(t, e)
mark(s, "s"); mark(t, "t")
record(f, t); wait(s, f); mark(s, "z")
error, graph = end(s)
executable = instantiate(graph)
"""


def _last(run_vgpu: RunVgpu, body: str, schedule: str = "lazy") -> str:
    return run_vgpu(_IMPORT + body, schedule=schedule)[0].lines[-1]


@pytest.mark.parametrize(("schedule", "expected"), [("eager", "a s t z"), ("lazy", "a t s z")])
def test_a_fork_and_join_replays_in_an_allowed_order(
    run_vgpu: RunVgpu, schedule: str, expected: str
) -> None:
    """Capture runs nothing; branches without an edge run in either order, by schedule."""
    body = (
        _FORK
        + """
order.append("captured")
ok("cudaGraphLaunch", executable, s); sync(s); print(' '.join(order))"""
    )

    assert _last(run_vgpu, body, schedule) == "captured " + expected


def test_launches_of_one_executable_are_serialised(run_vgpu: RunVgpu) -> None:
    """A launch on another stream waits for the earlier launch, and for nothing else there."""
    body = """
begin(s); mark(s, "g"); error, graph = end(s); executable = instantiate(graph)
mark(s, "first"); ok("cudaGraphLaunch", executable, s); mark(s, "late")
ok("cudaGraphLaunch", executable, t); sync(t); print(' '.join(order))"""

    assert _last(run_vgpu, body) == "first g g"


def test_a_fork_that_is_not_joined_is_an_error(run_vgpu: RunVgpu) -> None:
    """Ending the capture says so, gives no graph, and ends it on every stream."""
    body = """
begin(s); mark(s, "a"); record(e, s); wait(t, e); mark(t, "t")
error, graph = end(s)
status = ctypes.c_int(9); ok("cudaStreamIsCapturing", t, ctypes.byref(status))
print(error, graph.value, status.value)"""

    assert _last(run_vgpu, body) == "904 None 0"


@pytest.mark.parametrize(
    "unsafe",
    ["call('cudaStreamSynchronize', s)", "call('cudaDeviceSynchronize')",
     "call('cudaMalloc', ctypes.byref(Pointer()), ctypes.c_size_t(1))",
     "call('cudaEventQuery', new_event())"],
    ids=["stream sync", "device sync", "malloc", "event query"],
)  # fmt: skip
def test_an_unsafe_call_invalidates_the_capture(run_vgpu: RunVgpu, unsafe: str) -> None:
    """The call answers 900 and the capture's end 901."""
    body = f"begin(s); mark(s, 'a'); answer = {unsafe}; print(answer, end(s)[0])"

    assert _last(run_vgpu, body) == "900 901"


@pytest.mark.parametrize(
    ("mode", "expected"), [("GLOBAL", "900 901"), ("THREAD_LOCAL", "0 0"), ("RELAXED", "0 0")]
)
def test_capture_modes_bind_other_threads(run_vgpu: RunVgpu, mode: str, expected: str) -> None:
    """Only a global capture forbids other threads' unsafe calls."""
    body = f"""
import threading
begin(s, {mode}); mark(s, "a")
answers = []
other = threading.Thread(target=lambda: answers.append(call("cudaEventQuery", f)))
other.start(); other.join()
print(answers[0], end(s)[0])"""

    assert _last(run_vgpu, body) == expected


def test_a_thread_may_exempt_itself(run_vgpu: RunVgpu) -> None:
    """cudaThreadExchangeStreamCaptureMode to relaxed permits a call, and gives the old mode."""
    body = """
mode = ctypes.c_int(RELAXED); ok("cudaThreadExchangeStreamCaptureMode", ctypes.byref(mode))
begin(s); mark(s, "a"); answer = call("cudaEventQuery", f)
print(mode.value, answer, end(s)[0])"""

    assert _last(run_vgpu, body) == "0 0 0"


def test_work_outside_a_capture_is_isolated_from_it(run_vgpu: RunVgpu) -> None:
    """A captured stream cannot wait for an event recorded outside, nor be synchronised through."""
    body = """
mark(t, "t"); record(e, t)
begin(s); mark(s, "a"); answer = call("cudaStreamWaitEvent", s, e, 0)
record(f, s); query = call("cudaEventSynchronize", f)
print(answer, query)"""

    assert _last(run_vgpu, body) == "905 907"


def test_the_legacy_stream_cannot_be_captured_nor_used_implicitly(run_vgpu: RunVgpu) -> None:
    """Capturing it is unsupported; using it while a blocking stream captures is implicit."""
    body = """
begin_legacy = call("cudaStreamBeginCapture", LEGACY, GLOBAL)
b = new_stream(BLOCKING); begin(b); mark(b, "a")
print(begin_legacy, call("cudaMemsetAsync", device, 0, ctypes.c_size_t(1), LEGACY), end(b)[0])"""

    assert _last(run_vgpu, "device = device_memory(1)\n" + body) == "900 906 901"


def test_user_objects_live_as_long_as_a_graph_uses_them(run_vgpu: RunVgpu) -> None:
    """The destructor runs when graph and executable are both gone."""
    body = """
destroyed = []
destructor = ctypes.CFUNCTYPE(None, Pointer)(lambda p: destroyed.append(p))
begin(s); mark(s, "a"); error, graph = end(s)
thing = Pointer()
ok("cudaUserObjectCreate", ctypes.byref(thing), Pointer(5), destructor, 1, 1)
ok("cudaGraphRetainUserObject", graph, thing, 1, 1)
executable = instantiate(graph)
ok("cudaGraphDestroy", graph); after_graph = list(destroyed)
ok("cudaGraphExecDestroy", executable)
print(after_graph, destroyed)"""

    assert _last(run_vgpu, body) == "[] [5]"


def test_torch_graphs_replay(run_vgpu: RunVgpu) -> None:
    """torch.cuda.graph captures host copies and replays them with changed inputs."""
    code = """
import torch
source = torch.zeros(4, pin_memory=True)
target = torch.zeros(4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    target.copy_(source, non_blocking=True)
for value in (3.0, 5.0):
    source.fill_(value); graph.replay(); torch.cuda.synchronize()
    print(target.cpu().tolist())
"""
    finished = run_vgpu(code, schedule="lazy")[0]

    assert finished.lines == ["[3.0, 3.0, 3.0, 3.0]", "[5.0, 5.0, 5.0, 5.0]"]
