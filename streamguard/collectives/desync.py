"""Who waits where, for whom, and why: from what is known of every rank to a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from streamguard.collectives.agreement import Difference, first_difference
from streamguard.collectives.views import Call, View

# mismatch: members call different things; program: they wait for each other in different places;
# stuck: its device does not complete what others completed (only dumps tell)
# ended/dead/slow: the one that is waited for has ended, is gone, or is busy elsewhere
Kind = Literal["mismatch", "membership", "program", "ended", "dead", "stuck", "slow", "agreed"]

CODE_OF: Mapping[Kind, str] = {
    "mismatch": "SG310",
    "membership": "SG311",
    "program": "SG312",
    "ended": "SG313",
    "dead": "SG314",
    "stuck": "SG314",
    "slow": "SG315",
    "agreed": "",
}


@dataclass(frozen=True, slots=True)
class Wait:
    """A rank waits in a call for others.

    Attributes:
        key: The group.
        position: Sequence number in the group; -1 for a message.
        missing: Global ranks that have not made their part of the call.
    """

    rank: int
    key: str
    position: int
    call: Call | None
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong between the ranks.

    Attributes:
        culprits: Ranks in the minority, behind, ended or gone.
        waits: Who waits in which call.
        key: The group it is about, "" where it is about none.
        position: The collective it is about; -1 where it is about a message.
    """

    kind: Kind
    culprits: tuple[int, ...]
    waits: tuple[Wait, ...]
    key: str = ""
    position: int = -1
    difference: Difference | None = None
    last_common: int = -1

    @property
    def code(self) -> str:
        """SG310 to SG315; "" when all agree."""
        return CODE_OF[self.kind]


AGREED = Verdict("agreed", (), ())


def groups_of(views: Mapping[int, View]) -> dict[str, tuple[int, ...]]:
    """Members of every group that any rank has used."""
    found: dict[str, tuple[int, ...]] = {}
    for view in views.values():
        for key, members in view.members.items():
            found.setdefault(key, members)
    return found


def judge(views: Mapping[int, View], *, checks_sizes: bool = True) -> Verdict:
    """The verdict over all ranks, as of now.

    What is compared first is what ranks called; then who waits for whom. A rank that is merely
    behind is told from one that waits elsewhere by its own waits.

    Args:
        views: By global rank; a rank that is not among them was never heard of.
        checks_sizes: Whether fingerprints are comparable between ranks.
    """
    membership = membership_of(views)
    if membership is not None:
        return membership
    groups = groups_of(views)
    if checks_sizes:
        for difference in differences(views):
            return difference
    return _stall(views, groups)


def differences(views: Mapping[int, View]) -> Iterator[Verdict]:
    """The first call of each group that its members do not agree on, then that of messages."""
    groups = groups_of(views)
    for key, members in sorted(groups.items()):
        streams = {r: views[r].streams[key] for r in members
                   if r in views and key in views[r].streams}  # fmt: skip
        if len(streams) < 2:
            continue
        difference = first_difference(streams)
        if difference is not None:
            yield Verdict(
                "mismatch", difference.minority, waits_of(views, groups), key,
                difference.position, difference, difference.position - 1,
            )  # fmt: skip
    message = message_mismatch(views, groups)
    if message is not None:
        yield message


def waits_of(views: Mapping[int, View], groups: Mapping[str, tuple[int, ...]]) -> tuple[Wait, ...]:
    """The earliest call of every rank and group that another member has not made, by rank."""
    waits = []
    for key, members in sorted(groups.items()):
        ends = {rank: _end(views, rank, key) for rank in members}
        lowest = min(ends.values())
        # Whoever is ahead waits in the first call that somebody lacks.
        missing = tuple(rank for rank in members if ends[rank] <= lowest)
        for rank in members:
            if ends[rank] <= lowest or rank not in views:
                continue
            waits.append(Wait(rank, key, lowest, views[rank].call(key, lowest), missing))
    waits += _message_waits(views, groups)
    return tuple(sorted(waits, key=lambda wait: (wait.rank, wait.key, wait.position)))


def _end(views: Mapping[int, View], rank: int, key: str) -> int:
    view = views.get(rank)
    stream = None if view is None else view.streams.get(key)
    return 0 if stream is None else stream.end


def membership_of(views: Mapping[int, View]) -> Verdict | None:
    """A group that two ranks made of different members."""
    known: dict[str, tuple[int, tuple[int, ...]]] = {}
    for rank, view in sorted(views.items()):
        for key, members in view.members.items():
            first, expected = known.setdefault(key, (rank, members))
            if members is not expected and members != expected:
                return Verdict("membership", (first, rank), (), key)
    return None


Channel = tuple[str, int, int, int]


def _channels(
    views: Mapping[int, View], groups: Mapping[str, tuple[int, ...]]
) -> tuple[dict[Channel, list[Call]], dict[Channel, list[Call]], set[tuple[str, int]]]:
    """Sends and receives of every (group, sender, receiver, tag), and who receives from any."""
    sends: dict[Channel, list[Call]] = {}
    receives: dict[Channel, list[Call]] = {}
    from_any: set[tuple[str, int]] = set()
    for rank, view in sorted(views.items()):
        for key, call in view.messages:
            members = groups[key]
            other = views.get(members[call.peer]) if 0 <= call.peer < len(members) else None
            if view.is_partial or (other is not None and other.is_partial):
                continue  # which of them belong together is known only from the first one on
            if call.op == "recv_any_source" or not 0 <= call.peer < len(members):
                from_any.add((key, rank))
            elif call.op == "send":
                sends.setdefault((key, rank, members[call.peer], call.tag), []).append(call)
            else:
                receives.setdefault((key, members[call.peer], rank, call.tag), []).append(call)
    return sends, receives, from_any


def message_mismatch(
    views: Mapping[int, View], groups: Mapping[str, tuple[int, ...]]
) -> Verdict | None:
    """The first message whose two ends differ."""
    sends, receives, from_any = _channels(views, groups)
    for channel in sorted(sends.keys() & receives.keys()):
        key, sender, receiver, _ = channel
        if (key, receiver) in from_any:
            continue
        pairs = zip(sends[channel], receives[channel], strict=False)
        for position, (sent, received) in enumerate(pairs):
            if sent.message != received.message:
                waits = (
                    Wait(sender, key, -1, sent, (receiver,)),
                    Wait(receiver, key, -1, received, (sender,)),
                )
                return Verdict("mismatch", (sender, receiver), waits, key, -1, None, position - 1)
    return None


def _message_waits(
    views: Mapping[int, View], groups: Mapping[str, tuple[int, ...]]
) -> Iterable[Wait]:
    sends, receives, from_any = _channels(views, groups)
    for channel in sorted(sends.keys() | receives.keys()):
        key, sender, receiver, _ = channel
        sent, received = sends.get(channel, []), receives.get(channel, [])
        if len(received) > len(sent):
            yield Wait(receiver, key, -1, received[len(sent)], (sender,))
        elif len(sent) > len(received) and (key, receiver) not in from_any:
            yield Wait(sender, key, -1, sent[len(received)], (receiver,))


def _stall(views: Mapping[int, View], groups: Mapping[str, tuple[int, ...]]) -> Verdict:
    waits = waits_of(views, groups)
    if not waits:
        return AGREED
    missing = {rank for wait in waits for rank in wait.missing}
    waiting = {wait.rank for wait in waits}
    lost = tuple(r for r in sorted(missing) if r not in views
                 or views[r].status in ("gone", "silent", "absent"))  # fmt: skip
    # destroy_process_group may itself wait for what the rank has begun.
    ended = tuple(r for r in sorted(missing) if r in views and (views[r].status == "ended"
                  or (views[r].status == "leaving" and r not in waiting)))  # fmt: skip
    busy = tuple(r for r in sorted(missing) if r not in waiting and r not in lost + ended)
    # The collective that is shown: the one that most ranks wait in.
    counted: dict[tuple[str, int], int] = {}
    for wait in waits:
        counted[wait.key, wait.position] = counted.get((wait.key, wait.position), 0) + 1
    key, position = max(counted, key=lambda where: counted[where])
    common = position - 1 if position >= 0 else -1

    def verdict(kind: Kind, culprits: Sequence[int]) -> Verdict:
        return Verdict(kind, tuple(culprits), waits, key, position, None, common)

    if lost:
        return verdict("dead", lost)
    if ended:
        return verdict("ended", ended)
    if busy:
        return verdict("slow", busy)
    # Everybody who is waited for waits too.
    fewest = _minority(waits)
    return verdict("program", fewest)


def _minority(waits: Sequence[Wait]) -> tuple[int, ...]:
    """The ranks that wait where the fewest wait.

    Of equally few those that most others wait for; all of them where that is a draw too.
    """
    places: dict[tuple[str, int], set[int]] = {}
    waiting_for: dict[int, set[int]] = {}
    for wait in waits:
        places.setdefault((wait.key, wait.position), set()).add(wait.rank)
        for rank in wait.missing:
            waiting_for.setdefault(rank, set()).add(wait.rank)

    def weight(ranks: set[int]) -> tuple[int, int]:
        return len(ranks), -sum(len(waiting_for.get(rank, ())) for rank in ranks)

    least = min(weight(ranks) for ranks in places.values())
    return tuple(sorted({r for ranks in places.values() if weight(ranks) == least for r in ranks}))
