"""Optimizer plans of many ranks: what is found, and what it costs the Store and the first rank."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest

from streamguard.collectives.plan import OptimizerPlan, compare, exchange
from tests.collectives.synthetic import CountingStore

TWO, ONE = ((2048,), (32,)), ((2048,),)
NAMES = ("decay", "no_decay")


def _plan(
    rank: int, peers: tuple[int, ...], *, groups: tuple[tuple[int, ...], ...] = TWO
) -> OptimizerPlan:
    return OptimizerPlan(rank, "DeepSpeedZeroOptimizer", groups, NAMES[: len(groups)], peers)


class _Peers(tuple[int, ...]):
    """Counts how often somebody goes through them or looks for one."""

    __slots__ = ()
    asked = 0

    def __contains__(self, rank: object) -> bool:
        _Peers.asked += 1
        return tuple.__contains__(self, rank)

    def __iter__(self) -> Iterator[int]:
        _Peers.asked += 1
        return tuple.__iter__(self)


@pytest.mark.parametrize("odd", [None, 0, 99, 199])
def test_a_large_group_is_compared_rank_by_rank(odd: int | None) -> None:
    """200 ranks in one group: peers are looked at a few times a rank, not once for each pair."""
    world = _Peers(range(200))
    plans = [_plan(r, world, groups=ONE if r == odd else TWO) for r in world]
    _Peers.asked = 0
    text = compare(plans)

    assert _Peers.asked <= 4 * 200
    assert (f"rank {odd} has" in text) == (odd is not None)


def test_stages_that_never_meet_may_differ() -> None:
    """Ranks 0 and 1 share a group, 2 and 3 another; rank 1 names 2, which does not name it."""
    plans = [_plan(0, (0, 1)), _plan(1, (0, 1, 2))]
    plans += [_plan(2, (2, 3), groups=ONE), _plan(3, (2, 3), groups=ONE)]

    assert compare(plans) == ""
    assert "ranks 0, 1 have optimizer groups" in compare(
        [*plans[:2], _plan(2, (1, 2, 3), groups=ONE), plans[3]]
    )


class _Store(CountingStore):
    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """As torch's; here nobody waits."""


def test_the_plans_of_many_ranks_stay_small() -> None:
    """Every rank names 4096 peers, in pipeline stages of 8: below 200 bytes a rank, as written."""
    store = _Store()
    ranks = range(0, 4096 * 8, 8)
    own = [_plan(r, tuple(ranks), groups=ONE if r == 16 else TWO) for r in ranks[:4]]
    plans = [OptimizerPlan(i, p.owner, p.groups, p.names, p.peers) for i, p in enumerate(own)]
    told = [exchange(store, "plan", plan, len(plans)) for plan in reversed(plans)]

    assert told[:3] == ["", "", ""]
    assert store.sizes_bytes["set"] < 200 * len(plans)


def test_a_plan_survives_the_store() -> None:
    """What the first rank reports is what it would report of the plans themselves."""
    store = _Store()
    plans = [_plan(r, (0, 1, 2), groups=ONE if r == 2 else TWO) for r in range(3)]
    told = [exchange(store, "plan", plan, 3) for plan in reversed(plans)]

    assert told == ["", "", compare(plans)]
    assert told[-1].startswith("SG316 optimizer plans differ: ranks 0, 1 have optimizer groups")
    assert "[decay: 2048 elements, no_decay: 32 elements], rank 2 has [decay: 2048" in told[-1]
