"""CUPTI's callbacks: hears the runtime's calls in processes that could not preload our library."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
import torch.autograd.profiler

from streamguard import _hooks
from streamguard.patching import Method, Undo, wrap_method

CUDA_MAJOR = "13"  # the release whose numbers of functions csrc/cupti/abi.h has
LIBRARY = f"libcupti.so.{CUDA_MAJOR}"
_HELD = "a profiler holds CUPTI"  # csrc/cupti/subscriber.cc says it


@dataclass(slots=True)
class _Hearing:
    """Whether CUPTI is asked for, and what came of it.

    Attributes:
        is_wanted: A session wants to hear, now or once CUDA is initialised.
        is_listening: We are CUPTI's subscriber.
        was_heard: We have been, in this session.
        gave_way_to: The profiler for whom we let go, or never got in.
        problem: What else keeps us from hearing.
    """

    is_wanted: bool = False
    is_listening: bool = False
    was_heard: bool = False
    gave_way_to: str = ""
    problem: str = ""


_hearing = _Hearing()


@dataclass(frozen=True, slots=True)
class Heard:
    """What CUPTI adds to the coverage of a session.

    Attributes:
        in_part: Calls were heard.
        throughout: All of them, since CUDA was initialised.
        gave_way_to: The profiler that has CUPTI, or had it for a time; "" for none.
        problem: Why else nothing is heard; "" where it is, or was not asked for.
    """

    in_part: bool
    throughout: bool
    gave_way_to: str
    problem: str


def heard() -> Heard:
    """Say what was heard."""
    is_whole = _hearing.is_listening and not _hearing.gave_way_to
    return Heard(_hearing.was_heard, is_whole, _hearing.gave_way_to, _hearing.problem)


def hear_through_cupti() -> Undo:
    """Subscribe once CUDA is initialised; CUPTI would initialise the driver itself, before a fork.

    torch's profiler needs CUPTI for itself and keeps it: we let go when one starts.

    Returns:
        Undo: lets go of CUPTI.
    """
    global _hearing
    _hearing = _Hearing(is_wanted=True)
    if str(torch.version.cuda).split(".")[0] != CUDA_MAJOR:
        _hearing.problem = f"CUDA {torch.version.cuda}, known are the calls of CUDA {CUDA_MAJOR}"
        return _let_go
    profile = torch.autograd.profiler.profile
    restore = [
        wrap_method(profile, "_prepare_trace", _giving_way),
        wrap_method(profile, "_start_trace", _giving_way),
        wrap_method(profile, "__exit__", _coming_back),
    ]
    torch.cuda._lazy_call(_subscribe)

    def undo() -> None:
        for restore_one in reversed(restore):
            restore_one()
        _let_go()

    return undo


def _let_go() -> None:
    global _hearing
    _hearing = _Hearing()
    _hooks.leave_cupti()


def _subscribe() -> None:
    if not _hearing.is_wanted:
        return
    problem = _hooks.hear_through_cupti(LIBRARY)
    if problem == _HELD:
        _hearing.gave_way_to = "a profiler that holds CUPTI"
    else:
        _hearing.problem = problem
    _hearing.is_listening = not problem
    _hearing.was_heard = _hearing.is_listening


def _giving_way(original: Method) -> Method:
    @functools.wraps(original)
    def start(self: Any, *arguments: object) -> object:
        # One that looks at the host alone leaves CUPTI alone.
        if _hearing.is_listening and any(kind.name != "CPU" for kind in self.kineto_activities):
            _hooks.leave_cupti()
            _hearing.is_listening = False
            _hearing.gave_way_to = "torch's profiler"
        return original(self, *arguments)

    return start


def _coming_back(original: Method) -> Method:
    @functools.wraps(original)
    def stop(self: Any, *arguments: object) -> object:
        result = original(self, *arguments)
        if _hearing.is_wanted and _hearing.was_heard and not _hearing.is_listening:
            # The profiler keeps CUPTI unless it was told to tear it down (TEARDOWN_CUPTI).
            _hearing.is_listening = not _hooks.hear_through_cupti(LIBRARY)
            if _hearing.is_listening:
                _hearing.gave_way_to = "torch's profiler for a time"
        return result

    return stop
