"""The verdict over ranks, from views written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from streamguard.collectives.agreement import first_difference
from streamguard.collectives.desync import judge
from streamguard.collectives.views import Call, Status, Stream, View

WORLD = (0, 1, 2, 3)


def _stream(*numbers: int, base: int = 0) -> Stream:
    return Stream(base, np.array(numbers, np.uint64), np.zeros(len(numbers), np.uint64))


def _view(rank: int, status: Status = "running", **streams: Stream) -> View:
    return View(
        rank, status, members={key: WORLD for key in streams},
        names={key: key for key in streams}, streams=dict(streams),
    )  # fmt: skip


def test_a_minority_is_named_at_the_first_position() -> None:
    """Later differences and other lengths do not matter."""
    streams = {r: _stream(1, 2, 3, 4) for r in WORLD}
    streams[2] = _stream(1, 9, 8)

    difference = first_difference(streams)

    assert difference is not None
    assert (difference.position, difference.minority, difference.majority) == (1, (2,), (0, 1, 3))


def test_only_the_common_window_is_compared() -> None:
    """A ring that lost its oldest calls is compared from where all have records."""
    streams = {0: _stream(7, 2, 3), 1: _stream(2, 3, base=1)}

    assert first_difference(streams) is None


def test_sizes_that_do_not_add_up_are_a_difference() -> None:
    """Equal fingerprints, and one message that nobody expects."""
    streams = {r: _stream(5, 5) for r in (0, 1)}
    streams[1].balances[1] = 3

    difference = first_difference(streams)

    assert difference is not None
    assert (difference.position, difference.is_balance) == (1, True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [("running", "slow"), ("ended", "ended"), ("gone", "dead"), ("silent", "dead")],
)
def test_the_one_that_is_waited_for_tells_the_kind(status: Status, kind: str) -> None:
    """Rank 3 lacks the second call; what it does decides."""
    views = {r: _view(r, a=_stream(1, 2)) for r in (0, 1, 2)}
    views[3] = _view(3, status, a=_stream(1))

    verdict = judge(views)

    assert (verdict.kind, verdict.culprits, verdict.position) == (kind, (3,), 1)
    assert [wait.rank for wait in verdict.waits] == [0, 1, 2]
    assert all(wait.missing == (3,) for wait in verdict.waits)


def test_two_groups_in_another_order_are_a_program_error() -> None:
    """Rank 2 waits in b for the others, and they in a for rank 2."""
    views = {r: _view(r, a=_stream(1), b=_stream()) for r in (0, 1, 3)}
    views[2] = _view(2, a=_stream(), b=_stream(1))

    verdict = judge(views)

    assert (verdict.kind, verdict.culprits, verdict.key) == ("program", (2,), "a")


def test_ranks_that_agree_and_wait_for_nobody_are_silent() -> None:
    """Also when they have sent and received."""
    views = {r: _view(r, a=_stream(1, 2)) for r in WORLD}
    views[0].messages = [("a", Call("send", "", "", "", 0, 0, 1, 0, "float32 [4]"))]
    views[1].messages = [("a", Call("recv", "", "", "", 0, 0, 0, 0, "float32 [4]"))]

    assert judge(views).kind == "agreed"


def test_the_ends_of_a_message_are_compared() -> None:
    """The receiver expects another size."""
    views = {r: _view(r, a=_stream(1)) for r in WORLD}
    views[0].messages = [("a", Call("send", "", "", "", 0, 0, 1, 0, "float32 [4]"))]
    views[1].messages = [("a", Call("recv", "", "", "", 0, 0, 0, 0, "float32 [5]"))]

    verdict = judge(views)

    assert (verdict.kind, verdict.culprits) == ("mismatch", (0, 1))


def test_of_equally_few_those_are_named_that_most_wait_for() -> None:
    """Rank 0 sends to rank 3 what rank 2 waits for; ranks 1 and 3 wait for both in a."""
    views = {r: _view(r, a=_stream(1)) for r in (1, 3)}
    views |= {r: _view(r, a=_stream()) for r in (0, 2)}
    views[0].messages = [("a", Call("send", "", "", "", 0, 0, 3, 0, "float32 [4]"))]
    views[2].messages = [("a", Call("recv", "", "", "", 0, 0, 0, 0, "float32 [4]"))]

    verdict = judge(views)

    assert (verdict.kind, verdict.culprits) == ("program", (0, 2))
