"""Streams, events and host waits order exactly what CUDA says they order."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

SCHEDULES = ["eager", "lazy", "extreme:0,1", "extreme:1,0", "random:1", "random:2"]
_IMPORT = "from raw_cuda import *\n"


def _order(run_vgpu: RunVgpu, body: str, schedule: str) -> str:
    return run_vgpu(_IMPORT + body + "\nprint(' '.join(order))", schedule=schedule)[0].lines[-1]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_stream_runs_in_issue_order(run_vgpu: RunVgpu, schedule: str) -> None:
    """Ops of one stream run in the order of their calls."""
    body = "s = new_stream()\nfor i in range(5): mark(s, str(i))\nsync(s)"

    assert _order(run_vgpu, body, schedule) == "0 1 2 3 4"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wait_orders_two_streams(run_vgpu: RunVgpu, schedule: str) -> None:
    """What follows a wait runs after what precedes the record, transitively."""
    body = """
s, t, u = new_stream(), new_stream(), new_stream()
e, f = new_event(), new_event()
mark(s, "a"); record(e, s)
wait(t, e); record(f, t)   # t does no work of its own
wait(u, f); mark(u, "b")
sync(u)"""

    assert _order(run_vgpu, body, schedule) == "a b"


@pytest.mark.parametrize(
    ("waits", "expected"), [("wait(t, e)", "b a"), ("", "b")], ids=["waits", "does not wait"]
)
def test_only_a_wait_makes_a_sync_run_the_other_stream(
    run_vgpu: RunVgpu, waits: str, expected: str
) -> None:
    """Under lazy, a host wait runs what its stream depends on and nothing else."""
    body = f"""
s, t = new_stream(), new_stream()
e = new_event()
mark(s, "b"); record(e, s); {waits or "pass"}
mark(t, "a")
sync({"t" if waits else "s"})"""

    assert _order(run_vgpu, body, "lazy") == expected


def test_a_wait_takes_the_newest_record_before_it(run_vgpu: RunVgpu) -> None:
    """A record issued after the wait does not extend the wait."""
    body = """
s, t = new_stream(), new_stream()
e = new_event()
mark(s, "a"); record(e, s)
mark(s, "b"); record(e, s)
wait(t, e)
mark(s, "c"); record(e, s)
mark(t, "t"); sync(t)"""

    assert _order(run_vgpu, body, "lazy") == "a b t"


def test_a_wait_for_an_unrecorded_event_is_no_op(run_vgpu: RunVgpu) -> None:
    """Waiting for an event that was never recorded orders nothing."""
    body = """
s, t = new_stream(), new_stream()
e = new_event()
wait(t, e)
mark(s, "s"); record(e, s)
mark(t, "t"); sync(t)"""

    assert _order(run_vgpu, body, "lazy") == "t"


@pytest.mark.parametrize(
    ("kind", "expected"), [("BLOCKING", "a b"), ("NON_BLOCKING", "b")], ids=["blocking", "not"]
)
def test_legacy_stream_waits_for_blocking_streams_only(
    run_vgpu: RunVgpu, kind: str, expected: str
) -> None:
    """An op on the default stream comes after earlier work of blocking streams."""
    # Not through a synchronisation of the default stream: that waits for blocking streams itself.
    body = f"""
s, e = new_stream({kind}), new_event()
mark(s, "a"); mark(LEGACY, "b"); record(e, LEGACY)
ok("cudaEventSynchronize", e)"""

    assert _order(run_vgpu, body, "lazy") == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("BLOCKING", "a b"), ("NON_BLOCKING", "b")], ids=["blocking", "not"]
)
def test_blocking_streams_wait_for_the_legacy_stream(
    run_vgpu: RunVgpu, kind: str, expected: str
) -> None:
    """An op on a blocking stream comes after earlier work of the default stream."""
    body = f's = new_stream({kind})\nmark(LEGACY, "a"); mark(s, "b"); sync(s)'

    assert _order(run_vgpu, body, "lazy") == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("BLOCKING", "a"), ("NON_BLOCKING", "none")], ids=["blocking", "not"]
)
def test_a_host_wait_for_the_legacy_stream_includes_blocking_streams(
    run_vgpu: RunVgpu, kind: str, expected: str
) -> None:
    """Synchronising the default stream, itself without work, waits for blocking streams."""
    body = f's = new_stream({kind})\nmark(s, "a"); sync(LEGACY)\nif not order: order.append("none")'

    assert _order(run_vgpu, body, "lazy") == expected


def test_two_blocking_streams_do_not_wait_for_each_other(run_vgpu: RunVgpu) -> None:
    """The fence is with the default stream only."""
    body = 's, t = new_stream(BLOCKING), new_stream(BLOCKING)\nmark(s, "a"); mark(t, "b"); sync(t)'

    assert _order(run_vgpu, body, "lazy") == "b"


def test_per_thread_stream_is_blocking(run_vgpu: RunVgpu) -> None:
    """A thread's default stream takes part in the fences of the legacy stream."""
    body = 'mark(LEGACY, "a"); mark(PER_THREAD, "b"); sync(PER_THREAD)'

    assert _order(run_vgpu, body, "lazy") == "a b"


def test_each_thread_has_its_own_per_thread_stream(run_vgpu: RunVgpu) -> None:
    """Synchronising one thread's default stream does not run another's."""
    body = """
import threading
worker = threading.Thread(target=lambda: mark(PER_THREAD, "other"))
worker.start(); worker.join()
mark(PER_THREAD, "own"); sync(PER_THREAD)"""

    assert _order(run_vgpu, body, "lazy") == "own"


def test_device_sync_runs_every_stream_in_issue_order(run_vgpu: RunVgpu) -> None:
    """Lazy runs what a wait forces in the order of issue."""
    body = """
s, t = new_stream(), new_stream()
mark(s, "1"); mark(t, "2"); mark(s, "3"); mark(t, "4")
device_sync()"""

    assert _order(run_vgpu, body, "lazy") == "1 2 3 4"


def test_event_sync_runs_up_to_the_record(run_vgpu: RunVgpu) -> None:
    """cudaEventSynchronize waits for the record, not for what follows it."""
    body = """
s, e = new_stream(), new_event()
mark(s, "a"); record(e, s); mark(s, "b")
ok("cudaEventSynchronize", e)"""

    assert _order(run_vgpu, body, "lazy") == "a"


def test_work_of_a_destroyed_stream_still_runs(run_vgpu: RunVgpu) -> None:
    """cudaStreamDestroy neither waits for the stream's work nor drops it."""
    body = """
s, t, e = new_stream(), new_stream(), new_event()
mark(s, "a"); record(e, s)
ok("cudaStreamDestroy", s); order.append("destroyed")
wait(t, e); mark(t, "b"); sync(t)"""

    assert _order(run_vgpu, body, "lazy") == "destroyed a b"


def test_eager_runs_at_issue(run_vgpu: RunVgpu) -> None:
    """Under eager, an op has run when its call returns."""
    body = 's = new_stream()\nmark(s, "op"); order.append("host")'

    assert _order(run_vgpu, body, "eager") == "op host"


def test_a_query_says_not_ready_and_ends_at_last(run_vgpu: RunVgpu) -> None:
    """Under lazy, the issuing thread's polling loop ends after answers of "not ready"."""
    body = """
s, e = new_stream(), new_event()
mark(s, "a"); record(e, s)
answers = []
while not answers or answers[-1] != 0: answers.append(call("cudaEventQuery", e))
order.append(f"{answers[0]} {set(answers[:-1])}")"""

    assert _order(run_vgpu, body, "lazy") == "a 600 {600}"


def test_a_thread_that_only_queries_forces_nothing(run_vgpu: RunVgpu) -> None:
    """A watchdog that polls does not change what has run."""
    body = """
import threading
s, e = new_stream(), new_event()
mark(s, "a"); record(e, s)
answers = set()
def watch():
    for _ in range(1000): answers.add(call("cudaEventQuery", e))
watchdog = threading.Thread(target=watch)
watchdog.start(); watchdog.join()
order.append(f"answers {answers}"); sync(s)"""

    assert _order(run_vgpu, body, "lazy") == "answers {600} a"


def test_cuda_calls_from_a_host_function_are_refused(run_vgpu: RunVgpu) -> None:
    """A host function may not synchronise; helpers that take the runtime's lock do not deadlock."""
    body = """
s = new_stream()
host_call(s, lambda: order.append(f"{call('cudaStreamSynchronize', s)} {pending()}"))
sync(s)"""

    assert _order(run_vgpu, body, "lazy") == "800 1"
