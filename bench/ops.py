"""Times single ops and one training step in this process; prints JSON of microseconds per call."""

import json
import os
import sys
import time
from collections.abc import Callable

import torch

REPEATS = 9


def microseconds(function, calls: int) -> float:
    """Return the best of REPEATS batches: process time, so that the other core does not count."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.process_time()
        for _ in range(calls):
            function()
        best = min(best, time.process_time() - begin)
    torch.cuda.synchronize()
    return best / calls * 1e6


def at_depth(frames: int, function: Callable[[], None]) -> None:
    """Call with as many Python frames below, so that the watched runs keep full stacks."""
    if frames == 0:
        function()
    else:
        at_depth(frames - 1, function)


def measure() -> None:
    torch.set_num_threads(1)
    a, b = (torch.zeros(16, device="cuda") for _ in range(2))
    matrix = torch.zeros(32, 32, device="cuda")
    tensors = [torch.zeros(16, device="cuda") for _ in range(10)]
    event = torch.cuda.Event()
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    model.cuda()

    def record_and_wait() -> None:
        event.record()
        event.wait()

    def step() -> None:
        model(matrix).sum().backward()

    cases = {
        "add": (lambda: a + b, 2000),
        "add_": (lambda: a.add_(b), 2000),
        "view": (lambda: a.view(4, 4), 2000),
        "mm 32": (lambda: torch.mm(matrix, matrix), 2000),
        "foreach_add_ x10": (lambda: torch._foreach_add_(tensors, 1.0), 1000),
        "event record and wait": (record_and_wait, 1000),
        "forward and backward": (step, 100),
    }
    for function, _ in cases.values():
        for _ in range(50):
            function()
    torch.cuda.synchronize()
    print(json.dumps({name: microseconds(*case) for name, case in cases.items()}))


def main() -> None:
    if "STREAMGUARD" not in os.environ:
        # Nothing was loaded, so nothing can cost anything.
        assert "streamguard._hooks" not in sys.modules
        assert "streamguard.session" not in sys.modules
    at_depth(16, measure)


if __name__ == "__main__":
    main()
