"""A held stream is late, and nothing else changes: what confirm mode delays a stream with."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_PROGRAM = """
from raw_cuda import *
def hold(stream): ok("streamguard_vgpu_hold_stream", stream)
def release(stream, first):
    ok("streamguard_vgpu_release_stream", stream, first and ctypes.byref(first))
s, t = new_stream(), new_stream()
e = new_event()
"""


def _order(run_vgpu: RunVgpu, body: str, schedule: str = "eager") -> str:
    return run_vgpu(_PROGRAM + body + "\nprint(' '.join(order))", schedule=schedule)[0].lines[-1]


@pytest.mark.parametrize(
    ("held", "expected"), [("hold(s)", "b a"), ("", "a b")], ids=["held", "not held"]
)
def test_a_held_stream_lets_others_pass(run_vgpu: RunVgpu, held: str, expected: str) -> None:
    """Its op runs at the release, which comes after the other stream's."""
    body = f"{held or 'pass'}\nmark(s, 'a')\nmark(t, 'b')\nrelease(s, t)"

    assert _order(run_vgpu, body) == expected


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_release_runs_the_other_stream_first(run_vgpu: RunVgpu, schedule: str) -> None:
    """Also under lazy, where nothing has run at issue and a wait would keep issue order."""
    body = "hold(s)\nmark(s, 'a')\nmark(t, 'b')\nrelease(s, t)\nsync(s)\nsync(t)"

    assert _order(run_vgpu, body, schedule) == "b a"


def test_a_wait_for_a_held_stream_is_kept(run_vgpu: RunVgpu) -> None:
    """What waits for the held op makes it run: a hold breaks no order."""
    body = "hold(s)\nmark(s, 'a')\nrecord(e, s)\nwait(t, e)\nmark(t, 'b')\nrelease(s, t)"

    assert _order(run_vgpu, body) == "a b"


def test_the_host_can_wait_for_a_held_stream(run_vgpu: RunVgpu) -> None:
    """A synchronisation runs it; without a release nothing hangs."""
    assert _order(run_vgpu, "hold(s)\nmark(s, 'a')\nmark(t, 'b')\nsync(s)") == "b a"
