"""A verdict over ranks, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streamguard.collectives.desync import Verdict, Wait
from streamguard.collectives.views import View

_SHOWN = 16
_WORDS = {
    "gone": "its process no longer exists",
    "silent": "silent: dead, stopped, or its interpreter is locked",
    "absent": "never heard of",
    "ended": "has ended",
    "leaving": "is in destroy_process_group",
    "stopped": "known from its file only",
}


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 3` or `ranks 0-2, 5`."""
    numbers = sorted(set(ranks))
    parts: list[str] = []
    while numbers:
        end = 1
        while end < len(numbers) and numbers[end] == numbers[0] + end:
            end += 1
        parts.append(
            str(numbers[0]) if end == 1 else f"{numbers[0]}-{numbers[end - 1]}"
            if end > 2 else f"{numbers[0]}, {numbers[1]}"
        )  # fmt: skip
        numbers = numbers[end:]
    single = len(parts) == 1 and parts[0].isdecimal()
    return f"rank{'' if single else 's'} {', '.join(parts)}"


def render(
    verdict: Verdict, views: Mapping[int, View], *, headline: str = "", with_stacks: bool = True
) -> str:
    """The verdict with the table of who calls or waits where."""
    if verdict.kind == "agreed":
        return f"{headline}all ranks agree; nobody waits\n"
    lines = [f"{headline}{verdict.code} {_what(verdict, views)}"]
    if verdict.last_common >= 0 and verdict.key:
        common = _call_text(views, verdict.key, verdict.last_common)
        lines.append(f"  last call that all made: #{verdict.last_common}{common}")
    if verdict.difference is not None:
        lines += _table(verdict, views)
    if verdict.kind == "mismatch" and verdict.difference is None:
        # The two ends of one message.
        lines += [
            f"  rank {wait.rank}: {wait.call.what}  at {wait.call.place}"
            for wait in verdict.waits
            if wait.call is not None
        ]
        return "\n".join(lines) + "\n"
    if verdict.difference is None and verdict.kind != "stuck":
        lines += _waits(verdict.waits, views)
    lines += _others(verdict, views)
    if with_stacks and verdict.kind != "membership":
        lines += _stacks(verdict, views)
    return "\n".join(lines) + "\n"


def group_text(key: str, views: Mapping[int, View]) -> str:
    """The group's name and members."""
    for _, view in sorted(views.items()):
        if key in view.members:
            name = view.names.get(key, key)
            return f"{name} ({ranks_text(view.members[key])})"
    return f"group {key}"


def _what(verdict: Verdict, views: Mapping[int, View]) -> str:
    group = group_text(verdict.key, views)
    culprits = ranks_text(verdict.culprits)
    verb = "differs" if len(verdict.culprits) == 1 else "differ"
    match verdict.kind:
        case "mismatch" if verdict.position < 0:
            return f"message between {culprits} of {group}: sender and receiver differ"
        case "mismatch" if verdict.difference is not None and verdict.difference.is_balance:
            return (
                f"collective #{verdict.position} of {group}: the sizes that ranks send are not "
                "those that the others expect"
            )
        case "mismatch":
            return f"collective #{verdict.position} of {group}: {culprits} {verb} from the others"
        case "membership":
            first, second = verdict.culprits
            return (
                f"group {views[first].names[verdict.key]!r} has members "
                f"{list(views[first].members[verdict.key])} on rank {first} and "
                f"{list(views[second].members[verdict.key])} on rank {second}"
            )
        case "program":
            return (
                f"ranks wait for each other in different calls; in the minority: {culprits}. "
                "This does not resolve by itself"
            )
        case "dead":
            is_are = "is" if len(verdict.culprits) == 1 else "are"
            return f"{culprits} {is_are} dead or stopped; others wait"
        case "stuck":
            has = "has" if len(verdict.culprits) == 1 else "have"
            return (
                f"{culprits} {has} not completed collectives that other members completed: the "
                "device or its connection is stuck"
            )
        case "ended":
            return f"{culprits} ended without a call that others wait in"
        case "slow":
            # A file does not tell how its process ended, if it did not end by itself.
            is_known = all(views[rank].status != "stopped" for rank in verdict.culprits)
            reasons = "slow, or busy" if is_known else "killed, slow, or busy"
            return (
                f"{culprits} {'has' if len(verdict.culprits) == 1 else 'have'} not reached a call "
                f"that others wait in; no rank called anything wrong: {reasons} outside collectives"
            )
        case "agreed":
            return "all ranks agree"


def _call_text(views: Mapping[int, View], key: str, position: int) -> str:
    for _, view in sorted(views.items()):
        call = view.call(key, position) if key in view.streams else None
        if call is not None:
            return f" {call.what} ({call.place})"
    return ""


def _table(verdict: Verdict, views: Mapping[int, View]) -> list[str]:
    assert verdict.difference is not None
    by_call: dict[str, list[int]] = {}
    for rank in (*verdict.difference.majority, *verdict.difference.minority):
        call = views[rank].call(verdict.key, verdict.position)
        text = "(no longer recorded)" if call is None else f"{call.what}  at {call.place}"
        by_call.setdefault(text, []).append(rank)
    return [f"  {ranks_text(ranks)}: {text}" for text, ranks in by_call.items()]


def _waits(waits: Sequence[Wait], views: Mapping[int, View]) -> list[str]:
    merged: dict[str, list[int]] = {}
    for wait in waits:
        what, where = ("a call", "") if wait.call is None else (wait.call.what, wait.call.place)
        number = "" if wait.position < 0 else f" #{wait.position}"
        text = (
            f"in {what}{number} of {views[wait.rank].names.get(wait.key, wait.key)} for "
            f"{ranks_text(wait.missing)}" + (f"  at {where}" if where else "")
        )
        merged.setdefault(text, []).append(wait.rank)
    lines = [
        f"  {ranks_text(ranks)} {'waits' if len(ranks) == 1 else 'wait'} {text}"
        for text, ranks in merged.items()
    ]
    hidden = len(lines) - _SHOWN
    return lines if hidden <= 0 else [*lines[:_SHOWN], f"  … and {hidden} more"]


def _others(verdict: Verdict, views: Mapping[int, View]) -> list[str]:
    lines: list[str] = []
    if verdict.kind in ("membership",):
        return lines
    for rank in verdict.culprits:
        view = views.get(rank)
        status = "absent" if view is None else view.status
        words = _WORDS.get(status)
        remark = "" if view is None or not view.remark else f" ({view.remark})"
        if verdict.kind == "stuck" and view is not None:
            lines.append(f"  rank {rank}: {view.remark}")
        elif words is not None and status != "stopped":
            lines.append(f"  rank {rank}: {words}{remark}")
        if (
            view is not None
            and view.newest is not None
            and verdict.kind in ("slow", "dead", "ended")
        ):
            key, position = view.newest
            call = view.call(key, position)
            if call is not None:
                lines.append(
                    f"  rank {rank}: last call #{position} {call.what} of "
                    f"{view.names.get(key, key)}  at {call.place}"
                )
    return lines


def _stacks(verdict: Verdict, views: Mapping[int, View]) -> list[str]:
    lines: list[str] = []
    shown: dict[tuple[str, ...], list[int]] = {}
    for rank, view in sorted(views.items()):
        if view.stack:
            shown.setdefault(view.stack, []).append(rank)
    for stack, ranks in list(shown.items())[:_SHOWN]:
        lines.append(f"  where {ranks_text(ranks)} {'is' if len(ranks) == 1 else 'are'}:")
        lines += [f"    {frame}" for frame in stack]
    return lines
