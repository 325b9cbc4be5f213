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


@pytest.mark.parametrize("schedule", ["eager", "lazy", "extreme:3,1", "random:12345"])
def test_a_token_names_its_schedule(run_vgpu: RunVgpu, schedule: str) -> None:
    """streamguard_vgpu_schedule gives the token back that was asked for."""
    code = (
        _IMPORT
        + "cuda.streamguard_vgpu_schedule.restype = ctypes.c_char_p\n"
        + "print(cuda.streamguard_vgpu_schedule().decode())"
    )

    assert run_vgpu(code, schedule=schedule)[0].lines == [schedule]


@pytest.mark.parametrize("schedule", ["sometimes", "extreme:1,1", "extreme:1", "lazy "])
def test_an_unknown_schedule_ends_the_process(run_vgpu: RunVgpu, schedule: str) -> None:
    """A misspelt schedule is an error and not another schedule."""
    finished = run_vgpu(_IMPORT + "device_sync()", schedule=schedule, check=False)[0]

    assert finished.status == 2
    assert f"STREAMGUARD_VGPU_SCHEDULE={schedule} is no schedule" in finished.errors


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_repeats(run_vgpu: RunVgpu, seed: int) -> None:
    """The same seed gives the same order in another process."""
    body = (
        _IMPORT
        + """
streams = [new_stream() for _ in range(4)]
for i in range(40): mark(streams[i * 7 % 4], str(i))
device_sync(); print(' '.join(order))
"""
    )
    runs = {run_vgpu(body, schedule=f"random:{seed}")[0].output for _ in range(2)}

    assert len(runs) == 1


def test_random_seeds_differ(run_vgpu: RunVgpu) -> None:
    """Seeds give different orders of unordered work."""
    runs = {run_vgpu(_IMPORT + _TWO_STREAMS, schedule=f"random:{n}")[0].output for n in range(6)}

    assert len(runs) > 1


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
