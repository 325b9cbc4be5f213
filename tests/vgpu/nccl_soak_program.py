"""Random asynchronous collectives on three groups, checked against values computed on the host.

Every rank draws the same program from SOAK_SEED. Kernels compute nothing here: inputs and results
travel by copies on the streams that the collectives are ordered with.
"""

from __future__ import annotations

import os
import random

import torch
import torch.distributed as dist
from nccl_program import rank, start, world

_STEPS = int(os.environ.get("SOAK_STEPS", "200"))
_LIVE = 6  # collectives under way at most


def _input(step: int, of_rank: int, n: int) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32) * (of_rank + 1) + step


class Pending:
    """One collective under way and what it must give."""

    def __init__(self, step: int, kind: str, n: int, group: dist.ProcessGroup) -> None:
        inputs = [_input(step, r, n) for r in range(world)]
        data = inputs[rank].pin_memory().to("cuda", non_blocking=True)
        self.name = f"step {step}: {kind}({n})"
        if kind == "all_reduce":
            self.output, self.expected = data, sum(inputs)
            self.work = dist.all_reduce(data, group=group, async_op=True)
        elif kind == "broadcast":
            root = step % world
            self.output, self.expected = data, inputs[root]
            self.work = dist.broadcast(data, root, group=group, async_op=True)
        elif kind == "all_gather":
            self.output, self.expected = torch.empty(n * world, device="cuda"), torch.cat(inputs)
            self.work = dist.all_gather_into_tensor(self.output, data, group=group, async_op=True)
        else:
            self.output = torch.empty(n // world, device="cuda")
            self.expected = torch.stack(inputs).sum(0).chunk(world)[rank]
            work = dist.reduce_scatter_tensor(self.output, data, group=group, async_op=True)
            self.work = work

    def check(self) -> None:
        """Wait on the current stream and compare."""
        self.work.wait()
        result = torch.empty_like(self.expected, pin_memory=True)
        result.copy_(self.output, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        assert torch.equal(result, self.expected), f"{self.name}: {result} is not {self.expected}"


def main() -> None:
    """Run the drawn program."""
    draw = random.Random(int(os.environ["SOAK_SEED"]))
    start()
    groups = [dist.new_group(list(range(world))) for _ in range(3)]
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    pending: list[tuple[Pending, torch.cuda.Stream]] = []
    for step in range(_STEPS):
        kind = draw.choice(["all_reduce", "broadcast", "all_gather", "reduce_scatter"])
        n, group, stream = (
            world * draw.randrange(1, 2000),
            draw.choice(groups),
            draw.choice(streams),
        )
        with torch.cuda.stream(stream):
            pending.append((Pending(step, kind, n, group), stream))
        # Ranks check in different orders: each waits for what another may not have forced.
        order = random.Random(step * world + rank)
        while len(pending) > draw.randrange(_LIVE + 1) and pending:
            one, its_stream = pending.pop(order.randrange(len(pending)))
            with torch.cuda.stream(its_stream):
                one.check()
    for one, its_stream in pending:
        with torch.cuda.stream(its_stream):
            one.check()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    print("right")


main()
