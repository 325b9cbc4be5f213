"""Starts another schedule in this process, and lists the schedules that an exploration runs."""

from __future__ import annotations

import ctypes
import gc
import itertools
import re
from collections.abc import Iterable

from streamguard.config import is_schedule
from streamguard.errors import StreamguardError, UsageError
from streamguard.vgpu import load

# Eager is the reference; what shows a missing order most often comes first.
REFERENCE = "eager"
DEFAULT_SCHEDULES = ("eager", "lazy", "random:1-3", "pct:1-3", "extremes")

_SEEDS = re.compile(r"(random|pct):([0-9]{1,18})-([0-9]{1,18})")


def expand(schedules: Iterable[str], streams: int) -> tuple[str, ...]:
    """Turn a list such as `("lazy", "extremes", "random:1-3")` into tokens, each once.

    Args:
        schedules: Tokens; `extremes` for all pairs of streams; `random:A-B` and `pct:A-B` for
            the seeds A to B.
        streams: Streams that the program uses.

    Raises:
        UsageError: one of them is no schedule.
    """
    tokens: list[str] = []
    for schedule in schedules:
        seeds = _SEEDS.fullmatch(schedule)
        if schedule == "extremes":
            pairs = itertools.permutations(range(streams), 2)
            tokens += [f"extreme:{early},{late}" for early, late in pairs]
        elif seeds is not None:
            first, last = int(seeds[2]), int(seeds[3])
            tokens += [f"{seeds[1]}:{seed}" for seed in range(first, last + 1)]
        elif is_schedule(schedule):
            tokens.append(schedule)
        else:
            raise UsageError(
                f"{schedule!r} is no schedule; expected eager, lazy, extremes, extreme:I,J, "
                "random:SEED, random:FIRST-LAST, pct:SEED[,DEPTH] or pct:FIRST-LAST"
            )
    return tuple(dict.fromkeys(tokens))


def to_compare(schedules: str | Iterable[str], streams: int) -> tuple[str, ...]:
    """Return the schedules that are compared with the reference, as tokens, at least one.

    Args:
        schedules: As for `expand`, or one text with spaces between them.
        streams: Streams that the program uses.

    Raises:
        UsageError: one of them is no schedule, or none is left, so that nothing would be compared.
    """
    listed = schedules.split() if isinstance(schedules, str) else tuple(schedules)
    tokens = tuple(token for token in expand(listed, streams) if token != REFERENCE)
    if tokens:
        return tokens
    reason = f"{REFERENCE} is what the others are compared with" if listed else "none is given"
    if "extremes" in listed:
        reason = f"extremes need two streams, the program uses {streams}"
    raise UsageError(f"no schedule to compare: {reason}; for example: lazy random:1-3 extremes")


def start_schedule(token: str) -> None:
    """Run everything issued so far, then go on under another schedule, as a new process would.

    Streams and ops are numbered from here. Memory that nobody uses, in the runtime and in torch's
    allocator, is made alike for every schedule. The program's own state, such as tensors, random
    generators and optimizers, stays: reset it yourself. With several ranks, each calls this at the
    same place, with no collective under way: after a barrier that the host waited for.

    Raises:
        UsageError: the process does not run on the virtual GPU, or there is no such schedule.
        StreamguardError: work remains that does not end, such as a collective of this rank only.
    """
    if not load.is_loaded():
        raise UsageError("this process does not run on the virtual GPU: set STREAMGUARD_VGPU")
    # The runtime would take a sign, and the largest number for a larger one.
    if not is_schedule(token):
        raise UsageError(f"{token!r} is no schedule of the virtual GPU")
    _forget_unused_memory()
    runtime = ctypes.CDLL(None)
    error = runtime.streamguard_vgpu_start_schedule(token.encode())
    if error != 0:
        raise StreamguardError(
            f"schedule {token} cannot start while work is under way (CUDA error {error})"
        )


def streams_used() -> int:
    """Return how many streams this process has used since its schedule started."""
    return int(ctypes.CDLL(None).streamguard_vgpu_stream_count())


def _forget_unused_memory() -> None:
    """Free what torch keeps for later, and fill what it cannot free with the pattern."""
    import torch

    if not torch.cuda.is_initialized():
        return
    gc.collect()
    for device in range(torch.cuda.device_count()):
        torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch._C._host_emptyCache()
    refill = ctypes.CDLL(None).streamguard_vgpu_refill
    refill.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    refill.restype = None
    for segment in torch.cuda.memory_snapshot():
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                refill(block["address"], block["size"])
