"""Runs the torch litmus programs under every schedule, each in a fork of this process.

`python -m tests.conformance.torch_litmus_runs PART all|first` prints one JSON line for each half of
each case of a part: its streams, how many schedules were run, which of them give wrong values, and
the pairs that the detector reports, by the labels of the lines. `first` runs the racy half until it
is wrong, and the repaired one under no more schedules than that. A fork starts with torch imported
and no device in use: the same schedule gives the same addresses.
"""

from __future__ import annotations

import ctypes
import json
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from streamguard.session import Session
from streamguard.vgpu import values
from streamguard.vgpu.load import load

if TYPE_CHECKING:
    from tests.conformance.torch_litmus import Case

Values = list[list[float]]


def in_fork(schedule: str, body: Callable[[], Any]) -> Any:
    """Run `body` in a fork with a schedule of its own; what it returned, through JSON."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.environ["STREAMGUARD_VGPU_SCHEDULE"] = schedule
        try:
            outcome = json.dumps(body())
        except BaseException:
            outcome = json.dumps({"error": traceback.format_exc()})
        with os.fdopen(writing, "w") as pipe:
            pipe.write(outcome)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not text:
        raise RuntimeError(f"a program ended with wait status {status} under {schedule}")
    outcome = json.loads(text)
    if isinstance(outcome, dict) and "error" in outcome:
        raise RuntimeError(f"under {schedule}:\n{outcome['error']}")
    return outcome


def streams_used() -> int:
    """How many streams of this process have had work."""
    return int(ctypes.CDLL(None).streamguard_vgpu_stream_count())


def schedules(streams: int) -> list[str]:
    """Eager, lazy, and each stream early with each other one late."""
    extremes = [
        f"extreme:{early},{late}"
        for early in range(streams)
        for late in range(streams)
        if early != late
    ]
    return ["eager", "lazy", *extremes]


def reported_pairs(case: Case, run: Callable[[], Values]) -> list[list[str]]:
    """What the detector finds in a half: kind, domain and both labels of each race."""

    def watched() -> list[list[str]]:
        with Session() as session:
            run()
        return sorted(
            [
                finding.kind,
                finding.domain,
                label_of(case, finding.first),
                label_of(case, finding.second),
            ]
            for finding in session.findings()
        )

    # Where a query's answer decides what the program does, the cases mean "not ready".
    return in_fork("lazy", watched)


def label_of(case: Case, access: Any) -> str:
    """The comment at the end of the innermost line of the program that has one."""
    for frame in (*access.frames, *access.forward_frames):
        label = linecache.getline(frame.file, frame.line).partition("  # ")[2].strip()
        if frame.file == case.source and label:
            return label
    return str(access.op)


def outcomes(case: Case, *, stops_when_wrong: bool) -> Iterator[dict[str, Any]]:
    """One record for each half of a case."""
    _, streams = in_fork("lazy", lambda: (case.run_racy(), streams_used()))
    tokens = schedules(streams)
    for half, run in (("racy", case.run_racy), ("repaired", case.run_repaired)):
        wrong, ran = {}, []
        for token in tokens:
            seen = in_fork(token, run)
            ran.append(token)
            if not case.is_right(seen):
                wrong[token] = seen
                if stops_when_wrong:
                    break
        tokens = ran
        pairs = reported_pairs(case, run)
        yield {
            "id": case.id, "half": half, "streams": streams, "ran": len(ran),
            "wrong": wrong, "pairs": pairs,
        }  # fmt: skip


def main(part: str, how: str) -> None:
    """Run the programs of one part and print what came out."""
    load(1)
    values.install()
    # Autograd imports it at its first use, which takes most of a second in every fork.
    import sympy  # noqa: F401

    from tests.conformance.torch_litmus import CASES

    for case in CASES.values():
        if case.part == part:
            for outcome in outcomes(case, stops_when_wrong=how == "first"):
                print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
