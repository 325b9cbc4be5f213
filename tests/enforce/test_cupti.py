"""Waits are put in as well where CUPTI tells of calls, and never from inside its callbacks."""

from __future__ import annotations

from pathlib import Path

from tests.enforce.running import run
from tests.enforce.test_cases import CASES, SITES

OPTIONS = ("--no-preload", "--schedule", "extreme:0,1")


def test_waits_are_put_in_outside_of_callbacks(tmp_path: Path) -> None:
    """The same sites as with the preloaded library; copies between devices and collectives too."""
    log = tmp_path / "api.log"
    done = run(
        tmp_path / "out", CASES, "racy", options=(*OPTIONS, "--enforce"), devices=2,
        environ={"STREAMGUARD_CUPTI": "1", "STREAMGUARD_VGPU_LOG": str(log)},
    )  # fmt: skip

    sites = [
        (w["code"], w["second"]["op"], (w["second"]["stream"] or {}).get("name"))
        for w in done.of_type("wait")
    ]
    assert done.printed["wrong"] == {}
    assert sites == SITES
    assert (done.status, done.of_type("race")) == (0, [])
    assert "layers observer gputrace allocator c10d cupti;" in done.text
    calls = log.read_text().splitlines()
    assert len(calls) > 100
    assert not [line for line in calls if line.startswith("call_in_callback")]


def test_races_are_tried_outside_of_callbacks(tmp_path: Path) -> None:
    """Confirm mode delays and compares by calls of its own, which are neither heard nor nested."""
    log = tmp_path / "api.log"
    found = [
        sorted(
            (race["code"], race["second"]["op"])
            for race in run(
                tmp_path / name, CASES, "racy", options=(*options, "--confirm"), devices=2,
                environ={**environ, "STREAMGUARD_VGPU_LOG": str(log)},
            ).of_type("race")
        )
        for name, options, environ in (
            ("preloaded", OPTIONS[1:], {}),
            ("cupti", OPTIONS, {"STREAMGUARD_CUPTI": "1"}),
        )
    ]  # fmt: skip

    assert len(found[0]) == len(SITES)
    assert found[1] == found[0]
    assert "call_in_callback" not in log.read_text()
