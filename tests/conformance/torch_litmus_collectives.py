"""Litmus cases with a collective, in a group of one rank.

Its sum would be its input; one that scales by 2 shows which bytes were read and when the result
came.
"""

from __future__ import annotations

import queue
import threading

import torch
import torch.distributed as dist

from tests.conformance.torch_litmus import (
    SIZE,
    case,
    default_stream,
    device_block,
    on,
    pinned_block,
    require_reuse,
)

Seen = list[torch.Tensor]


def join_group() -> None:
    """Make the group of this one process, and its communicator, unless it is there already."""
    if dist.is_initialized():
        return
    dist.init_process_group(
        "nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0)
    )
    torch.cuda.synchronize()


def reduce_to_double(tensor: torch.Tensor, *, async_op: bool = False) -> dist.Work | None:
    """All-reduce in place to twice the sum of all ranks."""
    op = dist._make_nccl_premul_sum(2.0)
    return dist.all_reduce(tensor, op=op, async_op=async_op)


@case("deepep-589", 7.0)
def deepep_589(repaired: bool) -> Seen:
    join_group()
    cm, out, shard = torch.cuda.Stream(), device_block(), device_block(7.0)
    if not repaired:
        cm.wait_stream(default_stream())
    out.fill_(3.0)  # NaN fill
    if repaired:
        cm.wait_stream(default_stream())
    with on(cm):
        dist.all_gather_into_tensor(out, shard)  # combine
    return [out]


@case("ds-5216", 7.0)
def ds_5216(repaired: bool) -> Seen:
    join_group()
    ag, sec, full, w = torch.cuda.Stream(), device_block(), device_block(), device_block(7.0)
    sec.copy_(w)  # fill secondary shard
    if repaired:
        default_stream().synchronize()
    with on(ag):
        dist.all_gather_into_tensor(full, sec)  # prefetch all-gather
    return [full]


@case("ds-5606", 3.0, 4.0)
def ds_5606(repaired: bool) -> Seen:
    join_group()
    red, ipg0, ipg1 = torch.cuda.Stream(), device_block(), device_block()
    ipg0.fill_(1.0)
    red.wait_stream(default_stream())
    with on(red):
        reduce_to_double(ipg0)  # reduce k
    if repaired:
        default_stream().wait_stream(red)
    ipg1.fill_(2.0)
    red.wait_stream(default_stream())
    with on(red):
        reduce_to_double(ipg1)
    if repaired:
        default_stream().wait_stream(red)
    ipg0.fill_(3.0)  # fill k+2
    return [ipg0, ipg1]


@case("ds-7805", 3.0)
def ds_7805(repaired: bool) -> Seen:
    join_group()
    red, ipg0, ipg1 = torch.cuda.Stream(), device_block(), device_block()
    ipg0.fill_(1.0)
    red.wait_stream(default_stream())
    default_stream().wait_stream(red)
    with on(red):
        reduce_to_double(ipg0)
    ipg1.fill_(2.0)
    red.wait_stream(default_stream())
    default_stream().wait_stream(red)
    with on(red):
        reduce_to_double(ipg1)  # reduce k+1
    next_bucket = ipg0 if repaired else ipg1
    next_bucket.fill_(3.0)  # fill k+2
    return [next_bucket]


@case("ds-7965", 2.0)
def ds_7965(repaired: bool) -> Seen:
    join_group()
    red, g = torch.cuda.Stream(), device_block()
    g.fill_(1.0)
    red.wait_stream(default_stream())
    with on(red):
        flat = torch.empty(SIZE, device="cuda")
        flat.copy_(g)  # flatten
        reduce_to_double(flat)
        g.copy_(flat)  # copy back
    if repaired:
        g.record_stream(red)
    address = g.data_ptr()
    del g
    act = torch.empty(SIZE, device="cuda")
    if not repaired:
        require_reuse(act, address)
    act.fill_(2.0)  # next tenant
    return [act]


@case("ds-8080", 14.0)
def ds_8080(repaired: bool) -> Seen:
    join_group()
    p1, p2, red = (torch.cuda.Stream() for _ in range(3))
    ipg = device_block(blocks=2)
    with on(p1):
        ipg[:SIZE].fill_(7.0)  # copy grad A
    with on(p2):
        ipg[SIZE:].fill_(7.0)
    red.wait_stream(p2)
    if repaired:
        red.wait_stream(p1)
    with on(red):
        reduce_to_double(ipg)  # allreduce bucket
    return [ipg]


@case("hvd-363", 14.0)
def hvd_363(repaired: bool) -> Seen:
    join_group()
    nc, g = torch.cuda.Stream(), device_block()
    enqueued: queue.Queue[torch.cuda.Event] = queue.Queue()
    g.fill_(7.0)  # backward
    enqueued.put(default_stream().record_event())

    def background() -> None:
        # Only threads that have issued work get anywhere by asking under a lazy schedule.
        with on(nc):
            torch.zeros(1, device="cuda")
        ready = enqueued.get()
        while repaired and not ready.query():
            pass
        with on(nc):
            reduce_to_double(g)  # allreduce

    thread = threading.Thread(target=background)
    thread.start()
    thread.join()
    return [g]


@case("mlm-3670", 3.0)
def mlm_3670(repaired: bool) -> Seen:
    join_group()
    hk, comm = torch.cuda.Stream(), torch.cuda.Stream()
    bucket, shard = device_block(9.0), device_block()
    bucket.fill_(1.0)
    hk.wait_stream(default_stream())
    with on(hk):
        bucket.mul_(3.0)  # hook accumulate and scale
    comm.wait_stream(default_stream())
    if repaired:
        comm.wait_stream(hk)
    with on(comm):
        dist.reduce_scatter_tensor(shard, bucket)  # reduce-scatter
    return [shard]


@case("mlm-5222", 1.0, 2.0, 3.0)
def mlm_5222(repaired: bool) -> Seen:
    join_group()
    rs, a, b = torch.cuda.Stream(), device_block(), device_block()
    shard_a, shard_b = device_block(), device_block()
    a.fill_(1.0)
    rs.wait_stream(default_stream())
    with on(rs):
        dist.reduce_scatter_tensor(shard_a, a)  # reduce-scatter unit 2
    sent_a = rs.record_event()
    b.fill_(2.0)
    rs.wait_stream(default_stream())
    with on(rs):
        dist.reduce_scatter_tensor(shard_b, b)
    if repaired:
        default_stream().wait_event(sent_a)
    a.fill_(3.0)  # wgrad unit 0
    return [shard_a, shard_b, a]


@case("mlm-6388", 7.0)
def mlm_6388(repaired: bool) -> Seen:
    join_group()
    nccl, pf = torch.cuda.Stream(), torch.cuda.Stream()
    parameters, shard = device_block(blocks=2), device_block(7.0)
    with on(nccl):
        dist.all_gather_into_tensor(parameters[SIZE:], shard)  # param all-gather
    if repaired:
        pf.wait_stream(nccl)
    with on(pf):
        seen = parameters[SIZE : SIZE + SIZE // 2] * 1  # prefetch slice
    return [seen]


@case("mpich-7612", 7.0)
def mpich_7612(repaired: bool) -> Seen:
    join_group()
    u, internal, c = (torch.cuda.Stream() for _ in range(3))
    grad, out = device_block(), device_block()
    with on(u):
        grad.fill_(7.0)
    internal.wait_stream(u)
    with on(internal):
        dist.all_gather_into_tensor(out, grad)  # enqueued allreduce
    if repaired:
        u.wait_stream(internal)
    c.wait_event(u.record_event())
    with on(c):
        seen = out * 1  # optimizer
    return [seen]


@case("pt-180665", 1.0, 2.0)
def pt_180665(repaired: bool) -> Seen:
    join_group()
    rs, ar, cpu_grad = torch.cuda.Stream(), torch.cuda.Stream(), pinned_block()
    first, second = device_block(1.0), device_block(2.0)
    with on(rs):
        out = device_block()
        dist.reduce_scatter_tensor(out, first)
    ar.wait_stream(rs)
    with on(ar):
        cpu_grad.copy_(out, non_blocking=True)  # grad D2H
    address = out.data_ptr()
    del out
    if repaired:
        rs.wait_event(ar.record_event())
    with on(rs):
        out2 = torch.empty(SIZE, device="cuda")
        require_reuse(out2, address)
        dist.reduce_scatter_tensor(out2, second)  # next reduce-scatter
    return [cpu_grad, out2]


@case("pt-188655", 2.0)
def pt_188655(repaired: bool) -> Seen:
    join_group()
    s, a = torch.cuda.Stream(), device_block()
    a.fill_(1.0)
    s.wait_stream(default_stream())
    with on(s):
        # On NCCL's stream, which waits for s; wait() makes s wait for it and lets go of `a`.
        reduce_to_double(a, async_op=True).wait()  # allreduce
    if repaired:
        a.record_stream(s)
    address = a.data_ptr()
    del a
    new = torch.empty(SIZE, device="cuda")
    if not repaired:
        require_reuse(new, address)
    new.fill_(2.0)  # new tensor
    return [new]
