"""Two-stream programs of one process: cases.py racy|repaired. Prints {case: value} as JSON.

Stream 0 of the virtual GPU is the default stream, stream 1 `side`. Racy and repaired differ in the
one call that `repair` makes; nothing else orders what the case is about.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch

N = 1024
IS_REPAIRED = sys.argv[1] == "repaired"

side = torch.cuda.Stream()
default = torch.cuda.default_stream()


def repair(call: Callable[..., object], *arguments: object) -> None:
    """Make the call that the racy program lacks."""
    if IS_REPAIRED:
        call(*arguments)


def filled(value: float) -> torch.Tensor:
    """A tensor whose bytes both streams may use."""
    tensor = torch.full((N,), value, device="cuda")
    torch.cuda.synchronize()
    return tensor


def read_after_write() -> torch.Tensor:
    x = filled(1)
    with torch.cuda.stream(side):
        x.mul_(3)
    repair(default.wait_stream, side)
    return x + 1


def write_after_read() -> torch.Tensor:
    x = filled(1)
    with torch.cuda.stream(side):
        y = x * 3
    repair(default.wait_stream, side)
    x.fill_(100)
    default.wait_stream(side)
    return y


def write_after_write() -> torch.Tensor:
    x = filled(1)
    with torch.cuda.stream(side):
        x.fill_(3)
    repair(default.wait_stream, side)
    x.fill_(5)
    default.wait_stream(side)
    return x


def event_recorded_too_early() -> torch.Tensor:
    x = filled(1)
    with torch.cuda.stream(side):
        event = side.record_event()
        x.mul_(3)
        repair(event.record, side)
    default.wait_event(event)
    return x + 1


def rows_and_columns() -> torch.Tensor:
    x = filled(1).view(32, 32)
    with torch.cuda.stream(side):
        x[:, 3].fill_(7)
    repair(default.wait_stream, side)
    return x[5] + 0


def list_of_tensors() -> torch.Tensor:
    tensors = [filled(1) for _ in range(4)]
    with torch.cuda.stream(side):
        torch._foreach_mul_(tensors, 3)
    repair(default.wait_stream, side)
    return torch.stack(tensors).sum(0)


def block_reused_by_a_result() -> torch.Tensor:
    x, a = filled(1), filled(50)
    with torch.cuda.stream(side):
        y = x * 3
    repair(x.record_stream, side)
    del x
    kept = [a * 2 for _ in range(4)]  # one of them gets the bytes of x
    default.wait_stream(side)
    return y + 0 * kept[0]


def block_reused_by_a_new_tensor() -> torch.Tensor:
    x = filled(1)
    with torch.cuda.stream(side):
        y = x * 3
    repair(x.record_stream, side)
    del x
    kept = [torch.empty(N, device="cuda").fill_(50) for _ in range(4)]
    default.wait_stream(side)
    return y + 0 * kept[0]


def staging_buffer_overwritten() -> torch.Tensor:
    staging = torch.ones(N).pin_memory()
    with torch.cuda.stream(side):
        x = staging.to("cuda", non_blocking=True)
    repair(side.synchronize)
    staging.fill_(9)
    default.wait_stream(side)
    return x + 0


def result_read_on_the_host() -> torch.Tensor:
    x = filled(4)
    landing = torch.zeros(N).pin_memory()
    with torch.cuda.stream(side):
        landing.copy_(x, non_blocking=True)
    repair(side.synchronize)
    return landing + 1


def copy_to_another_device() -> torch.Tensor:
    x = filled(1)
    target = torch.zeros(N, device="cuda:1")
    torch.cuda.synchronize(1)
    with torch.cuda.stream(side):
        x.mul_(3)
    repair(default.wait_stream, side)
    target.copy_(x)
    return target


# By hand, from the order in which each case is written.
EXPECTED = {
    read_after_write: 4,
    write_after_read: 3,
    write_after_write: 5,
    event_recorded_too_early: 4,
    rows_and_columns: (32 - 1 + 7) / 32,
    list_of_tensors: 12,
    block_reused_by_a_result: 3,
    block_reused_by_a_new_tensor: 3,
    staging_buffer_overwritten: 1,
    result_read_on_the_host: 5,
    copy_to_another_device: 3,
}


def main() -> None:
    filled(0) + 1  # stream 0 is used first
    with torch.cuda.stream(side):
        filled(0) + 1
    wrong = {}
    for case, expected in EXPECTED.items():
        result = case()
        torch.cuda.synchronize()
        mean = result.double().mean().item()
        if mean != expected:
            wrong[case.__name__] = mean
        torch.cuda.synchronize()
    print(json.dumps({"cases": [case.__name__ for case in EXPECTED], "wrong": wrong}))


main()
