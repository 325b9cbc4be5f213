"""Runs a function of this process under many schedules and compares what it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamguard.errors import StreamguardError, UsageError
from streamguard.identity import process_group
from streamguard.vgpu import load
from streamguard.vgpu.comparison import Difference, first_difference
from streamguard.vgpu.description import describe
from streamguard.vgpu.results import NamedResult, RankResults, collect_into, result
from streamguard.vgpu.schedules import (
    DEFAULT_SCHEDULES,
    REFERENCE,
    start_schedule,
    streams_used,
    to_compare,
)


class UnstableResultError(StreamguardError):
    """The same schedule gave different bytes twice: something else than the order varies.

    Args:
        token: The schedule.
        difference: Where its two runs differ.
    """

    def __init__(self, token: str, difference: Difference) -> None:
        super().__init__(
            f"two runs under {token} differ at {difference.place}: {difference.expected} and "
            f"{difference.found}. Set seeds and reset all state, so that only the order can differ"
        )
        self.token = token
        self.difference = difference


@dataclass(frozen=True, slots=True)
class Exploration:
    """What the schedules showed.

    Attributes:
        schedules: Tokens in the order in which they ran, the reference first; none after the one
            that differs.
        results: Named results under the reference.
        streams: Streams that the reference used.
        rescued: Tokens whose order was not the schedule's alone; their runs prove nothing.
        token: The schedule that differs, or None.
        difference: Where it differs, or None.
    """

    schedules: tuple[str, ...]
    results: int
    streams: int
    rescued: tuple[str, ...]
    token: str | None = None
    difference: Difference | None = None


def explore(
    function: Callable[[], object], *, schedules: str | Iterable[str] = DEFAULT_SCHEDULES
) -> Exploration:
    """Call a function once per schedule and compare its named results with those under eager.

    The function names results with `streamguard.vgpu.result`, or returns them (a mapping, a tensor,
    …). It must do the same work at every call: set seeds, make its models and optimizers, and
    leave nothing behind that a later call reads, or the second run of a schedule differs and
    this raises. A difference is confirmed by running both schedules again.

    Args:
        function: Runs on the virtual GPU, in this process only.
        schedules: As for `streamguard.vgpu.schedules.to_compare`.

    Raises:
        UsageError: no virtual GPU, several ranks, no such schedule, none to compare with, or no
            named result.
        UnstableResultError: the results vary under one schedule.
    """
    if not load.is_loaded():
        raise UsageError("this process does not run on the virtual GPU: set STREAMGUARD_VGPU")
    if (process_group() or (0, 1))[1] > 1:
        raise UsageError(
            "explore() is for one process; for several ranks: streamguard run --vgpu N --explore"
        )
    before = describe().schedule
    try:
        return _explore(function, schedules if isinstance(schedules, str) else tuple(schedules))
    finally:
        collect_into(None)
        start_schedule(before)


def _explore(function: Callable[[], object], schedules: str | tuple[str, ...]) -> Exploration:
    to_compare(schedules, 2)  # a wrong one is said before anything runs
    reference = _run(function, REFERENCE)
    if not reference.results:
        raise UsageError(
            "nothing to compare: the function named no results; call "
            'streamguard.vgpu.result("name", tensor) or return them'
        )
    done = [REFERENCE]
    rescued = [REFERENCE] if reference.rescues else []
    for token in to_compare(schedules, reference.streams):
        run = _run(function, token)
        done.append(token)
        rescued += [token] if run.rescues else []
        difference = first_difference([reference], [run])
        if difference is None:
            continue
        for expected in (run, reference):
            again = first_difference([expected], [_run(function, expected.schedule)])
            if again is not None:
                raise UnstableResultError(expected.schedule, again)
        return _outcome(done, reference, rescued, token, difference)
    return _outcome(done, reference, rescued, None, None)


def _outcome(
    done: list[str],
    reference: RankResults,
    rescued: list[str],
    token: str | None,
    difference: Difference | None,
) -> Exploration:
    return Exploration(
        schedules=tuple(done),
        results=len(reference.results),
        streams=reference.streams,
        rescued=tuple(rescued),
        token=token,
        difference=difference,
    )


def _run(function: Callable[[], object], token: str) -> RankResults:
    start_schedule(token)
    rescues = describe().rescues
    results: list[NamedResult] = []
    collect_into(results.append)
    returned = function()
    if returned is not None:
        result("returned", returned)
    collect_into(None)
    del returned
    streams = streams_used()
    return RankResults(0, tuple(results), token, streams, describe().rescues - rescues)
