"""The text of verdicts, compared with the golden files word for word.

`STREAMGUARD_UPDATE_GOLDEN=1` writes the files anew; read the difference before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from streamguard.collectives.desync import judge
from streamguard.collectives.plan import OptimizerPlan, compare
from streamguard.collectives.verdict_text import render
from streamguard.collectives.views import Call, Status, Stream, View

GOLDEN = Path(__file__).parent.parent / "golden"
WORLD = (0, 1, 2, 3)
PLACES = {
    1: ("all_reduce sum float32 [1024]", "train.py:20 in step"),
    2: ("all_reduce sum float32 [1]", "train.py:31 in log_loss"),
    3: ("broadcast float32 [8] root 0", "train.py:40 in share"),
}


def _check(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("STREAMGUARD_UPDATE_GOLDEN"):
        path.write_text(text)

    assert text == path.read_text()


def _view(rank: int, status: Status = "running", **calls: tuple[int, ...]) -> View:
    """A rank whose calls on each group are numbers of PLACES."""

    def call(key: str, position: int) -> Call | None:
        if position >= len(calls[key]):
            return None
        number = calls[key][position]
        return Call(PLACES[number][0].split()[0], *PLACES[number], "other", number, 0)

    streams = {
        key: Stream(0, np.array(numbers, np.uint64), np.zeros(len(numbers), np.uint64))
        for key, numbers in calls.items()
    }
    newest = {key: numbers for key, numbers in calls.items() if numbers}
    last = next(reversed(newest), None)
    return View(
        rank, status, members=dict.fromkeys(calls, WORLD), names={key: key for key in calls},
        streams=streams, call=call, newest=None if last is None else (last, len(newest[last]) - 1),
    )  # fmt: skip


def _check_verdict(name: str, views: dict[int, View]) -> None:
    verdict = judge(views)

    assert verdict.code == name
    _check(name, render(verdict, views))


def test_a_call_that_differs() -> None:
    """SG310: the ranks by what they call and where."""
    views = {r: _view(r, dp=(1, 3) if r == 2 else (1, 2)) for r in WORLD}
    _check_verdict("SG310", views)


def test_a_group_of_other_members() -> None:
    """SG311: both ranks' members."""
    views = {r: _view(r, dp=(1,)) for r in WORLD}
    views[2].members["dp"] = (0, 2)
    _check_verdict("SG311", views)


def test_a_wait_for_each_other() -> None:
    """SG312: who waits in which group for whom, with the stack of the one in the minority."""
    views = {r: _view(r, dp=(1, 2), pp=()) for r in (0, 1, 3)}
    views[2] = _view(2, dp=(1,), pp=(3,))
    views[2].stack = ("/job/train.py:40 in share", "/job/train.py:77 in main")
    _check_verdict("SG312", views)


def test_a_rank_that_ended() -> None:
    """SG313: with its error and its last call."""
    views = {r: _view(r, dp=(1, 2)) for r in WORLD}
    views[3] = _view(3, "ended", dp=(1,))
    views[3].remark = "ValueError: bad batch"
    _check_verdict("SG313", views)


def test_a_file_does_not_tell_a_killed_rank_from_a_slow_one() -> None:
    """After the job: rank 3's file has no end, and says nothing about why."""
    views = {r: _view(r, "ended", dp=(1, 2)) for r in WORLD}
    views[3] = _view(3, "stopped", dp=(1,))
    headline = render(judge(views), views).splitlines()[0]

    assert headline == (
        "SG315 rank 3 has not reached a call that others wait in; no rank called anything wrong: "
        "killed, slow, or busy outside collectives"
    )


def test_a_rank_that_is_gone() -> None:
    """SG314: with its process and its last call."""
    views = {r: _view(r, dp=(1, 2)) for r in WORLD}
    views[3] = _view(3, "gone", dp=(1,))
    views[3].remark = "process 4711"
    _check_verdict("SG314", views)


def test_a_rank_that_is_slow() -> None:
    """SG315: with its stack."""
    views = {r: _view(r, dp=(1, 2)) for r in (0, 1, 2)}
    views[3] = _view(3, dp=(1,))
    views[3].stack = ("/job/data.py:9 in load",)
    _check_verdict("SG315", views)


def test_optimizers_that_differ() -> None:
    """SG316: the stages' groups and what will hang."""
    owner = "DeepSpeedZeroOptimizer"
    plans = [
        OptimizerPlan(0, owner, ((1024,), (48,)), ("decay 0.1", "no_decay"), (0, 2)),
        OptimizerPlan(1, owner, ((1024,), (48,)), ("decay 0.1", "no_decay"), (1, 3)),
        OptimizerPlan(2, owner, ((512,),), ("decay 0.1",), (0, 2)),
        OptimizerPlan(3, owner, ((512,),), ("decay 0.1",), (1, 3)),
    ]
    _check("SG316", compare(plans) + "\n")


def test_plans_with_as_many_norms_are_silent() -> None:
    """Other sizes do not matter, nor ranks that never meet, nor an optimizer with one norm."""
    names = ("decay 0.1", "no_decay")
    zero, bf16 = "DeepSpeedZeroOptimizer", "BF16_Optimizer"

    assert compare([
        OptimizerPlan(0, zero, ((1024,), (48,)), names, (0, 1)),
        OptimizerPlan(1, zero, ((512,), (16,)), names, (0, 1)),
    ]) == ""  # fmt: skip
    assert compare([
        OptimizerPlan(0, zero, ((1024,), (48,)), names, (0, 2)),
        OptimizerPlan(1, zero, ((512,),), names, (1, 3)),
    ]) == ""  # fmt: skip
    assert compare([
        OptimizerPlan(0, bf16, ((1024,), (48,)), names, (0, 1)),
        OptimizerPlan(1, bf16, ((512,),), names, (0, 1)),
    ]) == ""  # fmt: skip
