"""Programs whose ranks call different things, each with the twin in which they do not.

    matrix.py BACKEND

2, 4 or 8 ranks under the strict check. One of them differs: rank 1, 2 or 5. Each twin must go
through; each wrong program must be refused on all ranks before anything is launched, so that the
next can run. Prints one JSON object: what each program raised on this rank, "" if nothing.
"""

import json
import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

BACKEND = sys.argv[1]
WORLD = int(os.environ["WORLD_SIZE"])
ODD = {2: 1, 4: 2, 8: 5}[WORLD]
device = torch.device("cpu")
if BACKEND == "nccl":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
dist.init_process_group(BACKEND)
rank = dist.get_rank()
PAIR = (0 if WORLD == 2 else 1, ODD)
pair = dist.new_group(list(PAIR))


def ones(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor to communicate."""
    return torch.ones(n, dtype=dtype, device=device)


def pick(wrong: bool, usual: object, other: object) -> object:
    """What this rank passes."""
    return other if wrong and rank == ODD else usual


def all_to_all_single(wrong: bool) -> None:
    """The odd rank sends one element more to rank 0 than rank 0 expects."""
    sends = [1] * WORLD
    if wrong and rank == ODD:
        sends[0] = 2
    dist.all_to_all_single(
        ones(WORLD), ones(sum(sends)), output_split_sizes=[1] * WORLD, input_split_sizes=sends
    )


def gather(wrong: bool, root: int = 0, count: int = 8) -> None:
    """Collect on a root."""
    own = ones(count)
    pieces = [ones(8) for _ in range(WORLD)] if rank == root else None
    dist.gather(own, pieces, dst=root)


def scatter(wrong: bool, root: int = 0, count: int = 8) -> None:
    """Distribute from a root."""
    pieces = [ones(8) for _ in range(WORLD)] if rank == root else None
    dist.scatter(ones(count), pieces, src=root)


def swapped(wrong: bool) -> None:
    """Two ops in the other order."""
    ops = [lambda: dist.all_reduce(ones(8)), lambda: dist.broadcast(ones(8), 0)]
    for op in reversed(ops) if wrong and rank == ODD else ops:
        op()


def skips(wrong: bool) -> None:
    """A call that the odd rank leaves out."""
    if not (wrong and rank == ODD):
        dist.all_reduce(ones(8))
    dist.barrier()


def adds(wrong: bool) -> None:
    """A call that only the odd rank makes."""
    if wrong and rank == ODD:
        dist.all_reduce(ones(8))
    dist.barrier()


def conditional(wrong: bool) -> None:
    """A call that depends on a value that differs between ranks."""
    loss = 2.0 if wrong and rank == ODD else 1.0
    if loss > 1.5:
        dist.all_reduce(ones(1))
    dist.broadcast(ones(8), 0)


def in_pair(wrong: bool) -> None:
    """A group of two."""
    if rank in PAIR:
        dist.all_reduce(ones(pick(wrong, 8, 9)), group=pair)


def types_in_pair(wrong: bool) -> None:
    """A broadcast in a group of two."""
    if rank in PAIR:
        dist.broadcast(ones(8, pick(wrong, FLOAT, DOUBLE)), PAIR[0], group=pair)


def skips_in_pair(wrong: bool) -> None:
    """A call in a group of two that one of them leaves out."""
    if rank in PAIR:
        if not (wrong and rank == ODD):
            dist.all_reduce(ones(8), group=pair)
        dist.barrier(group=pair)


def gathers_objects(wrong: bool) -> None:
    """An object collective against another one."""
    if wrong and rank == ODD:
        dist.broadcast_object_list([{"a": 1}], src=0, device=device)
    else:
        dist.all_gather_object([None] * WORLD, {"a": 1})


def with_work(wrong: bool) -> None:
    """An asynchronous call."""
    dist.all_reduce(ones(pick(wrong, 8, 16)), async_op=True).wait()


def second_work(wrong: bool) -> None:
    """Two calls in flight, of which the second differs."""
    works = [dist.all_reduce(ones(n), async_op=True) for n in (8, pick(wrong, 8, 16))]
    for work in works:
        work.wait()


def list_form(wrong: bool) -> None:
    """One tensor for each rank."""
    count = pick(wrong, 4, 5)
    dist.all_gather([ones(count) for _ in range(WORLD)], ones(count))


def list_against_tensor(wrong: bool) -> None:
    """Both forms of all_gather agree on the wire; sizes must still fit."""
    count = pick(wrong, 4, 5)
    if rank == ODD:
        dist.all_gather([ones(count) for _ in range(WORLD)], ones(count))
    else:
        dist.all_gather_into_tensor(ones(4 * WORLD), ones(4))


def as_function(wrong: bool) -> None:
    """A functional collective."""
    functional.all_reduce(ones(pick(wrong, 8, 7)), "sum", dist.group.WORLD) + 0


def coalesced(wrong: bool) -> None:
    """Several tensors in one call."""
    dist.all_reduce_coalesced([ones(2), ones(pick(wrong, 3, 4))])


def all_to_all_list(wrong: bool) -> None:
    """Lists of tensors."""
    sent = [ones(1) for _ in range(WORLD)]
    if wrong and rank == ODD:
        sent[0] = ones(2)
    dist.all_to_all([ones(1) for _ in range(WORLD)], sent)


MAX, SUM = dist.ReduceOp.MAX, dist.ReduceOp.SUM
FLOAT, DOUBLE = torch.float32, torch.float64
Program = Callable[[bool], object]
PROGRAMS: dict[str, Program] = {
    "op: broadcast for all_reduce": lambda w: (
        dist.broadcast(ones(8), 0) if w and rank == ODD else dist.all_reduce(ones(8))
    ),
    "op: reduce for all_reduce": lambda w: (
        dist.reduce(ones(8), 0) if w and rank == ODD else dist.all_reduce(ones(8))
    ),
    "op: all_gather for all_reduce": lambda w: (
        dist.all_gather_into_tensor(ones(8 * WORLD), ones(8))
        if w and rank == ODD
        else dist.all_reduce(ones(8))
    ),
    "op: barrier for all_reduce": lambda w: (
        dist.barrier() if w and rank == ODD else dist.all_reduce(ones(8))
    ),
    "op: barrier for broadcast": lambda w: (
        dist.barrier() if w and rank == ODD else dist.broadcast(ones(8), 1)
    ),
    "op: scatter for broadcast": lambda w: (
        scatter(False) if w and rank == ODD else dist.broadcast(ones(8), 0)
    ),
    "op: all_to_all for all_reduce": lambda w: (
        all_to_all_single(False) if w and rank == ODD else dist.all_reduce(ones(8))
    ),
    "op: gather for reduce": lambda w: (
        gather(False) if w and rank == ODD else dist.reduce(ones(8), 0)
    ),
    "dtype: bfloat16 for float16": lambda w: dist.all_reduce(
        ones(8, pick(w, torch.float16, torch.bfloat16))
    ),
    "dtype: a group of two": types_in_pair,
    "dtype: all_reduce": lambda w: dist.all_reduce(ones(8, pick(w, FLOAT, DOUBLE))),
    "dtype: broadcast": lambda w: dist.broadcast(ones(8, pick(w, FLOAT, torch.int32)), 0),
    "dtype: all_gather": lambda w: dist.all_gather_into_tensor(
        ones(8 * WORLD, pick(w, FLOAT, DOUBLE)), ones(8, pick(w, FLOAT, DOUBLE))
    ),
    "dtype: bool for uint8": lambda w: dist.broadcast(ones(8, pick(w, torch.uint8, torch.bool)), 0),
    "dtype: reduce": lambda w: dist.reduce(ones(8, pick(w, FLOAT, torch.float16)), 0),
    "count: all_reduce": lambda w: dist.all_reduce(ones(pick(w, 8, 9))),
    "count: broadcast": lambda w: dist.broadcast(ones(pick(w, 8, 4)), 0),
    "count: reduce": lambda w: dist.reduce(ones(pick(w, 8, 16)), 1),
    "count: all_gather_into_tensor": lambda w: dist.all_gather_into_tensor(
        ones(WORLD * pick(w, 8, 6)), ones(pick(w, 8, 6))
    ),
    "count: all_gather list": list_form,
    "count: all_gather list for tensor": list_against_tensor,
    "count: all_reduce_coalesced": coalesced,
    "count: functional all_reduce": as_function,
    "count: asynchronous all_reduce": with_work,
    "count: nothing for something": lambda w: dist.all_reduce(ones(pick(w, 8, 0))),
    "count: the second of two in flight": second_work,
    "count: a group of two": in_pair,
    "root: broadcast": lambda w: dist.broadcast(ones(8), pick(w, 0, 1)),
    "root: reduce": lambda w: dist.reduce(ones(8), pick(w, 0, 1)),
    "root: gather": lambda w: gather(w, root=pick(w, 0, 1)),
    "root: scatter": lambda w: scatter(w, root=pick(w, 0, 1)),
    "reduce op: all_reduce": lambda w: dist.all_reduce(ones(8), pick(w, SUM, MAX)),
    "reduce op: functional all_reduce": lambda w: (
        functional.all_reduce(ones(8), pick(w, "sum", "max"), dist.group.WORLD) + 0
    ),
    "reduce op: reduce": lambda w: dist.reduce(ones(8), 0, pick(w, SUM, MAX)),
    "sizes: gather": lambda w: gather(w, count=pick(w, 8, 7)),
    "sizes: scatter": lambda w: scatter(w, count=pick(w, 8, 9)),
    "sizes: all_to_all_single": all_to_all_single,
    "order: two ops swapped": swapped,
    "missing call": skips,
    "missing call: a group of two": skips_in_pair,
    "extra call": adds,
    "conditional call": conditional,
    "object collectives": gathers_objects,
}
if BACKEND == "nccl":
    PROGRAMS |= {
        "count: reduce_scatter_tensor": lambda w: dist.reduce_scatter_tensor(
            ones(pick(w, 8, 6)), ones(WORLD * pick(w, 8, 6))
        ),
        "reduce op: reduce_scatter": lambda w: dist.reduce_scatter_tensor(
            ones(8), ones(8 * WORLD), pick(w, SUM, MAX)
        ),
        "sizes: all_to_all list": all_to_all_list,
    }

raised: dict[str, list[str]] = {}
for name, program in PROGRAMS.items():
    raised[name] = []
    for wrong in (False, True):
        try:
            program(wrong)
            raised[name].append("")
        except dist.DistBackendError as error:
            raised[name].append(str(error))
print("RAISED " + json.dumps(raised), flush=True)
dist.destroy_process_group()
