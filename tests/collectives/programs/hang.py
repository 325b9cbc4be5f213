"""Programs that hang because of one rank, and the twins that do not.

    hang.py BACKEND NAME wrong|clean

Four ranks; rank 2 is at fault. NAME `all` runs every clean twin, one after the other.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable

import torch
import torch.distributed as dist

BACKEND, NAME, WRONG = sys.argv[1], sys.argv[2], sys.argv[3] == "wrong"
ODD = 2
device = torch.device("cpu")
if BACKEND == "nccl":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
dist.init_process_group(BACKEND)
rank, world = dist.get_rank(), dist.get_world_size()
is_at_fault = WRONG and rank == ODD
everybody = dist.new_group(list(range(world)))


def ones(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor to communicate."""
    return torch.ones(n, dtype=dtype, device=device)


def reduce(group: dist.ProcessGroup | None = None) -> None:
    """Wait on the host for an all_reduce."""
    tensor = ones(8)
    dist.all_reduce(tensor, group=group)
    tensor.cpu()


def exits() -> None:
    """Rank 2 ends."""
    if is_at_fault:
        sys.exit(0)
    reduce()


def raises() -> None:
    """Rank 2 fails."""
    if is_at_fault:
        raise ValueError("bad batch")
    reduce()


def is_interrupted() -> None:
    """A person stops rank 2, as Ctrl-C stops all of a job at about the same time."""
    if is_at_fault:
        raise KeyboardInterrupt
    reduce()


def all_fail() -> None:
    """All ranks fail, with as many calls behind them."""
    reduce()
    if WRONG:
        raise ValueError("bad batch")


def is_killed() -> None:
    """Rank 2's process is killed."""
    if is_at_fault:
        os.kill(os.getpid(), signal.SIGKILL)
    reduce()


def is_stopped() -> None:
    """Rank 2's process is stopped."""
    if is_at_fault:
        os.kill(os.getpid(), signal.SIGSTOP)
    reduce()


def sleeps() -> None:
    """Rank 2 is busy elsewhere."""
    if is_at_fault:
        threading.Event().wait(3600)
    reduce()


def orders() -> None:
    """Rank 2 uses two groups in the other order."""
    for group in (everybody, None) if is_at_fault else (None, everybody):
        reduce(group)


def forgets() -> None:
    """Rank 2 goes on without the last all_reduce, to a group of its own that others do not use."""
    if not is_at_fault:
        reduce()
    else:
        reduce(everybody)
    if not WRONG:
        reduce(everybody)


def sends_to_the_wrong_peer() -> None:
    """Rank 2 waits for a message that goes to rank 3."""
    if rank == 0:
        dist.send(ones(4), 3 if WRONG else ODD)
    if rank == ODD:
        tensor = ones(4)
        dist.recv(tensor, 0)
        tensor.cpu()
    reduce()


def receives_nothing() -> None:
    """Rank 2 waits for a second message."""
    if rank == 0:
        dist.send(ones(4), ODD)
    if rank == ODD:
        for _ in range(2 if WRONG else 1):
            tensor = ones(4)
            dist.recv(tensor, 0)
            tensor.cpu()
    reduce()


def message_sizes() -> None:
    """Rank 2 expects more than is sent."""
    if rank == 0:
        dist.send(ones(4), ODD)
    if rank == ODD:
        dist.recv(ones(5 if WRONG else 4), 0)
    reduce()


def message_types() -> None:
    """Rank 2 expects another dtype of the same size."""
    if rank == 0:
        dist.send(ones(4), ODD)
    if rank == ODD:
        dist.recv(ones(4, torch.int32 if WRONG else torch.float32), 0)
    reduce()


def membership() -> None:
    """Rank 2 makes the same group of other members."""
    ranks = [0, 1, 2] if not is_at_fault else [0, 2, 3]
    if rank in (0, 1, 2):
        group = dist.new_group(ranks)
        reduce(group)
    else:
        dist.new_group([0, 1, 2])


PROGRAMS: dict[str, Callable[[], None]] = {
    "exits": exits,
    "raises": raises,
    "is-interrupted": is_interrupted,
    "all-fail": all_fail,
    "is-killed": is_killed,
    "is-stopped": is_stopped,
    "sleeps": sleeps,
    "order-of-groups": orders,
    "missing-last-call": forgets,
    "wrong-peer": sends_to_the_wrong_peer,
    "recv-without-send": receives_nothing,
    "message-size": message_sizes,
    "message-dtype": message_types,
    "membership": membership,
}

for _ in range(3):
    reduce()
for name, program in PROGRAMS.items():
    if NAME in (name, "all"):
        program()
print("END", flush=True)
dist.destroy_process_group()
