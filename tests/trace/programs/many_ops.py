"""Ops of every kind that a trace holds; words on the command line switch on what a test needs.

`repaired`: the reads wait for the writes. `kill`: the process kills itself once the trace has its
races. `full`: from then on the trace cannot grow.
"""

import os
import resource
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import streamguard

WORDS = set(sys.argv[1:])
IS_REPAIRED = "repaired" in WORDS
IS_DISTRIBUTED = "RANK" in os.environ


def wait_for(stream: torch.cuda.Stream) -> None:
    """The one call in which the repaired twin differs."""
    if IS_REPAIRED:
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.current_stream().synchronize()


def write_then_read(side: torch.cuda.Stream) -> None:
    """A kernel writes on a side stream, another reads the transposed rows on the default one."""
    weights = torch.zeros(64, 32, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        weights[:, 8:16].add_(1)
    wait_for(side)
    (weights.t()[4:12] * 2).sum()


def read_on_host(side: torch.cuda.Stream) -> None:
    """A copy to pinned memory that the host reads."""
    values = torch.ones(1024, device="cuda")
    target = torch.zeros(1024, pin_memory=True)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        target.copy_(values, non_blocking=True)
    wait_for(side)
    target.add_(1)


def free_too_early(side: torch.cuda.Stream) -> None:
    """A block is used on a side stream, freed, and handed out again."""
    block = torch.zeros(1 << 21, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        block.mul_(3)
    wait_for(side)
    del block
    torch.ones(1 << 21, device="cuda")


def backward(side: torch.cuda.Stream) -> None:
    """A gradient that is read on a side stream."""
    weight = torch.ones(256, device="cuda", requires_grad=True)
    (weight * weight).sum().backward()
    gradient = weight.grad
    if IS_REPAIRED:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        gradient.div_(2)
    torch.cuda.synchronize()


def reduce() -> None:
    """An asynchronous collective whose result is read."""
    if not IS_DISTRIBUTED:
        return
    values = torch.ones(512, device="cuda")
    work = dist.all_reduce(values, async_op=True)
    if IS_REPAIRED:
        work.wait()
    values.mul_(2)
    torch.cuda.synchronize()
    work.wait()


def trace_bytes() -> int:
    """Size of the traces so far."""
    return sum(path.stat().st_size for path in Path(os.environ["STREAMGUARD_TRACE"]).iterdir())


def wait_until_written() -> None:
    """Go on until the trace has grown twice: what was done before the call is in it then."""
    values = torch.zeros(16, device="cuda")
    for _ in range(2):
        before = trace_bytes()
        while trace_bytes() == before:
            values.add_(1)


def main() -> None:
    """Run every part once, and its steps marked."""
    if IS_DISTRIBUTED:
        torch.cuda.set_device(int(os.environ["RANK"]))
        dist.init_process_group("nccl")
    torch.cuda.init()
    side = torch.cuda.Stream()
    for part in (write_then_read, read_on_host, free_too_early, backward):
        part(side)
        torch.cuda.synchronize()
        streamguard.step()
    reduce()
    if "kill" in WORDS:
        wait_until_written()
        os.kill(os.getpid(), signal.SIGKILL)
    if "full" in WORDS:
        wait_until_written()
        most = trace_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


main()
