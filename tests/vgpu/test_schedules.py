"""Schedules show races, keep correct programs right, and repeat."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_IMPORT = "from raw_cuda import *\n"
_TWO_STREAMS = """
s, t = new_stream(), new_stream()
mark(s, "s1"); mark(t, "t1"); mark(s, "s2"); mark(t, "t2")
device_sync()
print(' '.join(order))
"""
_READ_BEFORE_WRITE = """
writer, reader, done = new_stream(), new_stream(), new_event()
data, result = device_memory(1), pinned_memory(1)
fill(data, 1, 1, LEGACY); device_sync()
fill(data, 7, 1, writer); record(done, writer)
{wait}
copy(result, data, 1, reader)
sync(reader)
print(byte_at(result))
"""


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("lazy", "s1 t1 s2 t2"),
        ("extreme:0,1", "s1 s2 t1 t2"),
        ("extreme:1,0", "t1 t2 s1 s2"),
    ],
)
def test_extremes_run_one_stream_first(run_vgpu: RunVgpu, schedule: str, expected: str) -> None:
    """Stream indices count first uses: the early one runs at issue, the late one when forced."""
    finished = run_vgpu(_IMPORT + _TWO_STREAMS, schedule=schedule)[0]

    assert finished.lines == [expected]


def test_the_late_stream_runs_last_of_what_a_wait_forces(run_vgpu: RunVgpu) -> None:
    """Among streams that are neither early nor forced by it, the late one comes after the rest."""
    body = """
s, t, u = new_stream(), new_stream(), new_stream()
mark(s, "s"); mark(t, "t"); mark(u, "u")
device_sync(); print(' '.join(order))
"""
    finished = run_vgpu(_IMPORT + body, schedule="extreme:0,1")[0]

    assert finished.lines == ["s u t"]


def test_an_extreme_forces_no_more_of_the_late_stream_than_needed(run_vgpu: RunVgpu) -> None:
    """The early stream pulls what it waits for, and only that, out of the late one."""
    body = """
s, t, e = new_stream(), new_stream(), new_event()
mark(s, "s1")
mark(t, "t1"); record(e, t); mark(t, "t2")
wait(s, e); mark(s, "s2"); order.append("host")
device_sync(); print(' '.join(order))
"""
    finished = run_vgpu(_IMPORT + body, schedule="extreme:0,1")[0]

    assert finished.lines == ["s1 t1 s2 host t2"]


@pytest.mark.parametrize("wait", ["pass", "wait(reader, done)"], ids=["racy", "repaired"])
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_lazy_shows_a_missing_wait(run_vgpu: RunVgpu, schedule: str, wait: str) -> None:
    """Eager hides a missing wait, lazy shows it; with the wait both give the written value."""
    code = _IMPORT + _READ_BEFORE_WRITE.format(wait=wait)
    finished = run_vgpu(code, schedule=schedule)[0]

    racy_and_lazy = wait == "pass" and schedule == "lazy"
    assert finished.lines == ["1" if racy_and_lazy else "7"]


@pytest.mark.parametrize(
    "schedule", ["eager", "lazy", "extreme:3,1", "random:12345", "pct:7", "pct:7,5"]
)
def test_a_token_names_its_schedule(run_vgpu: RunVgpu, schedule: str) -> None:
    """streamguard_vgpu_schedule gives the token back that was asked for."""
    code = (
        _IMPORT
        + "cuda.streamguard_vgpu_schedule.restype = ctypes.c_char_p\n"
        + "print(cuda.streamguard_vgpu_schedule().decode())"
    )

    assert run_vgpu(code, schedule=schedule)[0].lines == [schedule]


@pytest.mark.parametrize(
    "schedule", ["sometimes", "extreme:1,1", "extreme:1", "lazy ", "pct:", "pct:1,0"]
)
def test_an_unknown_schedule_ends_the_process(run_vgpu: RunVgpu, schedule: str) -> None:
    """A misspelt schedule is an error and not another schedule."""
    finished = run_vgpu(_IMPORT + "device_sync()", schedule=schedule, check=False)[0]

    assert finished.status == 2
    assert f"STREAMGUARD_VGPU_SCHEDULE={schedule} is no schedule" in finished.errors


@pytest.mark.parametrize("token", ["random:1", "random:2", "pct:1", "pct:2,6"])
def test_a_token_repeats(run_vgpu: RunVgpu, token: str) -> None:
    """The same token gives the same order in another process."""
    body = (
        _IMPORT
        + """
streams = [new_stream() for _ in range(4)]
for i in range(40): mark(streams[i * 7 % 4], str(i))
device_sync(); print(' '.join(order))
"""
    )
    runs = {run_vgpu(body, schedule=token)[0].output for _ in range(2)}

    assert len(runs) == 1


# Starts schedule after schedule in one process and prints the order of two streams under each.
_MANY = """
for token in {tokens}:
    order.clear()
    assert cuda.streamguard_vgpu_start_schedule(token.encode()) == 0
    s, t = new_stream(), new_stream()
    mark(s, "s1"); mark(t, "t1"); mark(s, "s2"); mark(t, "t2"); order.append("host")
    device_sync(); print(' '.join(order))
"""


def test_random_gives_every_order_of_unordered_work(run_vgpu: RunVgpu) -> None:
    """Each of the six orders of two ops on each of two streams comes up."""
    tokens = [f"random:{seed}" for seed in range(100)]
    finished = run_vgpu(_IMPORT + _MANY.format(tokens=tokens))[0]

    orders = {line.replace("host ", "").replace(" host", "") for line in finished.lines}
    assert orders == {
        "s1 s2 t1 t2",
        "s1 t1 s2 t2",
        "s1 t1 t2 s2",
        "t1 s1 s2 t2",
        "t1 s1 t2 s2",
        "t1 t2 s1 s2",
    }


def test_pct_of_depth_one_never_changes_priorities(run_vgpu: RunVgpu) -> None:
    """A stream runs wholly before or wholly after the other and the host."""
    tokens = [f"pct:{seed},1" for seed in range(60)]
    finished = run_vgpu(_IMPORT + _MANY.format(tokens=tokens))[0]

    assert set(finished.lines) == {
        "host s1 s2 t1 t2",
        "host t1 t2 s1 s2",
        "s1 s2 host t1 t2",
        "t1 t2 host s1 s2",
        "s1 t1 s2 t2 host",
    }


def test_pct_of_more_depth_stops_a_stream_midway(run_vgpu: RunVgpu) -> None:
    """A change of priorities lets the host or the other stream come between two ops of a stream."""
    tokens = [f"pct:{seed},12" for seed in range(100)]
    finished = run_vgpu(_IMPORT + _MANY.format(tokens=tokens))[0]

    assert {"s1 host t1 t2 s2", "s1 host s2 t1 t2", "t1 t2 s1 host s2"} & set(finished.lines)


@pytest.mark.parametrize("token", ["random:-1", "random:99999999999999999999999", "pct:+1", "Lazy"])
def test_a_token_that_names_another_schedule_is_not_started(run_vgpu: RunVgpu, token: str) -> None:
    """What a process could not be started with is refused inside one too."""
    code = f"""
import torch
from streamguard.errors import UsageError
from streamguard.vgpu import describe, start_schedule
try:
    start_schedule({token!r})
except UsageError as error:
    print(error, describe().schedule)
"""
    lines = run_vgpu(code, schedule="lazy")[0].lines

    assert lines == [f"{token!r} is no schedule of the virtual GPU lazy"]


def test_a_schedule_started_anew_counts_from_its_start(run_vgpu: RunVgpu) -> None:
    """In one process each token gives the order that it gives in a process of its own."""
    tokens = ["extreme:0,1", "random:3", "lazy", "extreme:1,0", "pct:5", "random:3"]
    together = run_vgpu(_IMPORT + _MANY.format(tokens=tokens))[0].lines

    alone = {
        token: run_vgpu(_IMPORT + _MANY.format(tokens=[token]))[0].lines[0] for token in tokens
    }
    assert together == [alone[token] for token in tokens]


def test_a_new_schedule_finds_memory_as_in_a_new_process(run_vgpu: RunVgpu) -> None:
    """What one schedule wrote and freed is not there under the next; within one it is refilled."""
    body = """
for token in ("lazy", "eager", "lazy"):
    assert cuda.streamguard_vgpu_start_schedule(token.encode()) == 0
    for attempt in range(2):
        data = device_memory(8); print(byte_at(data), end=" ")
        set_byte(data, 7); ok("cudaFree", data)
"""
    finished = run_vgpu(_IMPORT + body)[0]

    assert finished.output == "0 251 0 251 0 251 "


def test_work_nobody_waits_for_still_runs(run_vgpu: RunVgpu) -> None:
    """A host that sleeps until a host function has run is not left waiting."""
    body = (
        _IMPORT
        + """
import threading
done = threading.Event()
s = new_stream()
host_call(s, done.set)
assert pending() == 1
done.wait()
print(int(cuda.streamguard_vgpu_rescues()))
"""
    )
    finished = run_vgpu(body, schedule="lazy")[0]

    assert finished.lines == ["1"]


def test_a_busy_host_is_not_rescued(run_vgpu: RunVgpu) -> None:
    """Host computation, however long between calls, does not run lazy work."""
    body = (
        _IMPORT
        + """
s = new_stream(); mark(s, "a")
sum(i * i for i in range(20_000_000))
print(pending())
"""
    )
    finished = run_vgpu(body, schedule="lazy")[0]

    assert finished.lines == ["1"]
