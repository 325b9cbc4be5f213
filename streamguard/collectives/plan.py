"""Compares the optimizers' groups of all ranks before the first step can hang on them."""

from __future__ import annotations

import datetime
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from streamguard.collectives.exchange import Store
from streamguard.collectives.verdict_text import ranks_text

WAIT_S = 10.0
# These reduce the norm once for each group that is not empty; others (BF16_Optimizer) once.
_ONE_NORM_A_GROUP = ("DeepSpeedZeroOptimizer",)


@dataclass(frozen=True, slots=True)
class OptimizerPlan:
    """What one rank's optimizer will do in a step.

    Attributes:
        owner: Class of the optimizer.
        groups: Element counts of the parameters of each group.
        names: The groups' names as far as they have any.
        peers: Global ranks that take part in its norm reductions beyond the data-parallel ones.
    """

    rank: int
    owner: str
    groups: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    peers: tuple[int, ...]

    @property
    def norms(self) -> int:
        """Norm reductions of one step."""
        return len(self.groups) if self.owner in _ONE_NORM_A_GROUP else 1

    def groups_text(self) -> str:
        """`[decay 0.1: 2048 elements, no_decay: 32 elements]`."""
        parts = []
        for i, group in enumerate(self.groups):
            name = self.names[i] if i < len(self.names) and self.names[i] else f"group {i}"
            parts.append(f"{name}: {sum(group)} elements")
        return f"[{', '.join(parts)}]"


def exchange(store: Store, key: str, own: OptimizerPlan, world_size: int) -> str:
    """Publish a plan; the first rank waits for all plans and compares them.

    Returns:
        The report, or "" on all other ranks and when the plans agree.
    """
    store.set(f"{key}/{own.rank}", _encode(own))
    if own.rank != 0:
        return ""
    store.set_timeout(datetime.timedelta(seconds=WAIT_S))  # type: ignore[attr-defined]
    try:
        found = store.multi_get([f"{key}/{rank}" for rank in range(world_size)])
    except RuntimeError:
        # A rank builds no optimizer, or much later: nothing can be said about it.
        return ""
    return compare([_decode(rank, raw) for rank, raw in enumerate(found)])


def compare(plans: Iterable[OptimizerPlan]) -> str:
    """The first difference between plans that meet in one group, in words; "" if there is none."""
    every = {plan.rank: plan for plan in plans}
    pair = _first_unequal_peers(every)
    if pair is None:
        return ""
    first, second = pair
    hashes = {rank: plan_hash(plan) for rank, plan in every.items()}
    alike = {p.rank: [r for r in every if hashes[r] == hashes[p.rank]] for p in pair}
    return (
        f"SG316 optimizer plans differ: {_have(alike[first.rank])} optimizer "
        f"groups {first.groups_text()}, {_have(alike[second.rank])} "
        f"{second.groups_text()}: step() will all-reduce the norm {first.norms} × against "
        f"{second.norms} × on the group of {ranks_text(first.peers)}; it hangs\n"
        "  repair: give every stage the same number of optimizer groups, or use an "
        "optimizer that reduces one norm (DeepSpeed's BF16_Optimizer, streamguard.zero)"
    )


def _first_unequal_peers(
    every: Mapping[int, OptimizerPlan],
) -> tuple[OptimizerPlan, OptimizerPlan] | None:
    """The lowest two ranks that meet and reduce unequally often.

    Cost: the sum of all peers, and only where numbers of norms differ at all: a data-parallel
    group of 10,000 has 10**8 members' members.
    """
    norms = {rank: plan.norms for rank, plan in every.items()}
    if len(set(norms.values())) < 2:
        return None
    for rank, first in sorted(every.items()):
        for other in sorted(p for p in first.peers if norms.get(p, norms[rank]) != norms[rank]):
            if other > rank and rank in every[other].peers:
                return first, every[other]
    return None


def _have(ranks: list[int]) -> str:
    return f"{ranks_text(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def plan_hash(plan: OptimizerPlan) -> str:
    """Equal for equal plans."""
    content = json.dumps([plan.owner, plan.groups, plan.names])
    return hashlib.sha256(content.encode()).hexdigest()


def _encode(plan: OptimizerPlan) -> bytes:
    # Distances compress well: the ranks of 10,000 peers take 100 bytes in place of 59,000.
    distances = [p - q for p, q in zip(plan.peers, (0, *plan.peers), strict=False)]
    content = [plan.owner, plan.groups, plan.names, distances]
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode())


def _decode(rank: int, raw: bytes) -> OptimizerPlan:
    owner, groups, names, distances = json.loads(zlib.decompress(raw))
    return OptimizerPlan(
        rank, owner, tuple(map(tuple, groups)), tuple(names), tuple(accumulate(distances))
    )
