"""Two-stream programs whose racing pair comes again and again: cases.py changing|same [repaired].

`changing`: the late op leaves other bytes than the pair needs. `same`: it leaves the very bytes
that were there, so that no delay can show. `repaired`: the one call that orders the pair is made.
Prints the names of the cases as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch

N = 1024  # floats: 4096 bytes
ROUNDS = 8
IS_CHANGING = sys.argv[1] == "changing"
IS_REPAIRED = sys.argv[2:] == ["repaired"]

side = torch.cuda.Stream()
default = torch.cuda.default_stream()


def repair(call: Callable[..., object], *arguments: object) -> None:
    """Make the call that the racy program lacks."""
    if IS_REPAIRED:
        call(*arguments)


def value(round_number: int) -> float:
    """A value that differs from round to round where bytes are to change."""
    return 2.0 + round_number if IS_CHANGING else 1.0


def filled(number: float) -> torch.Tensor:
    tensor = torch.full((N,), number, device="cuda")
    torch.cuda.synchronize()
    return tensor


def read_after_write() -> None:
    x = filled(1.0)
    for i in range(ROUNDS):
        with torch.cuda.stream(side):
            x.fill_(value(i))
        repair(default.wait_stream, side)
        x + 1
        torch.cuda.synchronize()


def overwrite_after_read() -> None:
    x = filled(1.0)
    for i in range(ROUNDS):
        with torch.cuda.stream(side):
            x * 3
        repair(default.wait_stream, side)
        x.fill_(value(i))
        torch.cuda.synchronize()


def write_after_write() -> None:
    x = filled(0.0)
    for i in range(ROUNDS):
        with torch.cuda.stream(side):
            x.fill_(1)
        repair(default.wait_stream, side)
        x.fill_(value(i))
        torch.cuda.synchronize()


def block_reused_by_a_result() -> None:
    a = filled(1.0)
    for i in range(ROUNDS):
        x = torch.full((N,), 1.0, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            x * 3
        repair(x.record_stream, side)
        del x
        a.mul(value(i))  # gets the bytes of x
        torch.cuda.synchronize()


def staging_buffer_overwritten() -> None:
    staging = torch.ones(N).pin_memory()
    x = filled(0.0)
    for i in range(ROUNDS):
        with torch.cuda.stream(side):
            x.copy_(staging, non_blocking=True)
        repair(side.synchronize)
        staging.fill_(value(i))
        torch.cuda.synchronize()


def result_read_on_the_host() -> None:
    landing = torch.ones(N).pin_memory()
    for i in range(ROUNDS):
        x = filled(value(i))
        with torch.cuda.stream(side):
            landing.copy_(x, non_blocking=True)
        repair(side.synchronize)
        landing + 1
        torch.cuda.synchronize()


CASES = (
    read_after_write,
    overwrite_after_read,
    write_after_write,
    block_reused_by_a_result,
    staging_buffer_overwritten,
    result_read_on_the_host,
)

for case in CASES:
    case()
print(json.dumps([case.__name__ for case in CASES]))
