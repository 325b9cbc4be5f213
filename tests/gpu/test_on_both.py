"""The same facts on the virtual GPU, in every test run, and on a GPU, in `make gpu-check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.collectives.record import read_logs
from tests.enforce.running import run

CONFIRM = "tests/confirm/cases.py"
PAIRS = 6


@pytest.fixture(params=["virtual", pytest.param("gpu", marks=pytest.mark.gpu)])
def devices(request: pytest.FixtureRequest) -> int:
    """Virtual devices to run on; 0: the machine's own GPU."""
    return 1 if request.param == "virtual" else 0


def test_a_wait_for_the_legacy_stream_waits_for_blocking_ones_and_not_the_reverse(
    devices: int, tmp_path: Path
) -> None:
    """The rule that docs/happens_before.md marks to be confirmed (HB-05)."""
    lazy = ("--schedule", "lazy") if devices else ()

    done = run(tmp_path, "tests/gpu/legacy_stream.py", devices=devices, options=lazy)

    assert done.printed == {
        "blocking stream runs": True,
        "done after a wait for the legacy stream": True,
        "legacy stream done after a wait for the blocking one": False,
    }


def test_changed_bytes_are_seen(devices: int, tmp_path: Path) -> None:
    """Each race of the cases whose bytes change is found and shows when its first op is delayed."""
    done = run(tmp_path, CONFIRM, "changing", devices=devices, options=("--confirm",))

    races = done.of_type("race")
    assert [race["tries"]["showing"] for race in races] == [1] * PAIRS
    assert (done.status, done.summary["confirmed"]) == (66, PAIRS)


def test_equal_bytes_are_not_seen(devices: int, tmp_path: Path) -> None:
    """The twin whose bytes do not change is found and never shows."""
    done = run(tmp_path, CONFIRM, "same", devices=devices, options=("--confirm",))

    assert (done.status, len(done.of_type("race")), done.summary["confirmed"]) == (66, PAIRS, 0)


def test_enforced_waits_leave_no_race(devices: int, tmp_path: Path) -> None:
    """All pairs of the cases get their waits, one in each of the eight rounds."""
    done = run(tmp_path, CONFIRM, "changing", devices=devices, options=("--enforce",))

    assert (done.status, done.of_type("race")) == (0, [])
    assert [wait["count"] for wait in done.of_type("wait")] == [8] * PAIRS


@pytest.mark.parametrize(("how", "codes"), [("races", ["SG006"]), ("waits", [])])
def test_an_asynchronous_collective_is_watched(
    devices: int, how: str, codes: list[str], tmp_path: Path
) -> None:
    """NCCL's stream is known, and what its work's `wait` orders."""
    done = run(tmp_path, "tests/gpu/one_rank.py", how, devices=devices)

    assert [race["code"] for race in done.of_type("race")] == codes


def test_nccl_tells_the_profiler_plugin_of_calls_found_by_dlsym(
    devices: int, tmp_path: Path
) -> None:
    """NCCL loads it, and what it is told has the program's own numbers in it."""
    done = run(tmp_path, "tests/gpu/message_to_itself.py", devices=devices)
    (log,) = read_logs(tmp_path)
    (note,) = log.notes_of("unrecorded")
    newest = note["newest"]
    assert isinstance(newest, list)

    assert done.printed["answers"] == [0] * 6
    assert (note["calls"], note["uncounted"]) == ({"ncclRecv": 1, "ncclSend": 1}, "")
    keys = ("function", "type", "count", "send", "receive", "peer", "ranks", "heard")
    source, target = done.printed["source"], done.printed["target"]
    assert [tuple(call[key] for key in keys) for call in newest] == [
        ("ncclSend", "ncclFloat32", 16, source, 0, 0, 1, False),
        ("ncclRecv", "ncclFloat32", 16, 0, target, 0, 1, False),
    ]
    assert "ncclRecv outside torch.distributed 1, ncclSend outside torch.distributed 1" in done.text
