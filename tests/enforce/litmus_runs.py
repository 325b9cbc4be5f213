"""Runs the torch litmus programs with enforced waits, each schedule in a fork of this process.

`python -m tests.enforce.litmus_runs PART all|extremes` prints one JSON line for each half of each
case of a part: the schedules that give wrong values, how many were run, and under how many of them
waits were inserted or races were left.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from streamguard.hooks import Enforcing
from streamguard.session import Session
from streamguard.vgpu import values
from streamguard.vgpu.load import load
from tests.conformance.torch_litmus_runs import in_fork, schedules

Values = list[list[float]]


def enforced(run: Callable[[], Values]) -> dict[str, Any]:
    """Run a half with enforced waits."""
    with Session(enforcing=Enforcing(is_timed=False)) as session:
        seen = run()
    return {
        "values": seen,
        "sites": len(session.waits()),
        "inserted": session.coverage().waits_inserted,
        "races": len(session.findings()),
    }


def main(part: str, how: str) -> None:
    """Run the programs of one part and print what came out."""
    load(1)
    values.install()
    # Autograd imports it at its first use, which takes most of a second in every fork.
    import sympy  # noqa: F401

    from tests.conformance.torch_litmus import CASES

    for case in CASES.values():
        if case.part != part:
            continue
        for half, run in (("racy", case.run_racy), ("repaired", case.run_repaired)):
            tokens = schedules(run) if how == "all" else ["extreme:0,1", "extreme:1,0"]
            outcomes = {token: in_fork(token, lambda run=run: enforced(run)) for token in tokens}
            record = {
                "id": case.id,
                "half": half,
                "ran": len(tokens),
                "wrong": {t: o for t, o in outcomes.items() if not case.is_right(o["values"])},
                "inserting": sum(o["inserted"] > 0 for o in outcomes.values()),
                "sites": sum(o["sites"] for o in outcomes.values()),
                "racing": sum(o["races"] > 0 for o in outcomes.values()),
            }
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
