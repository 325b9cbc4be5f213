"""Litmus cases whose pair lies on two streams of the device."""

from __future__ import annotations

import ctypes
import queue
import threading

import torch

from tests.conformance.torch_litmus import (
    SIZE,
    case,
    default_stream,
    device_block,
    on,
    pinned_block,
)

Seen = list[torch.Tensor]


def blocking_stream() -> torch.cuda.ExternalStream:
    """A stream that takes part in the legacy default stream's fences, unlike torch's own."""
    handle = ctypes.c_void_p()
    assert int(torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle))) == 0
    assert handle.value is not None
    return torch.cuda.ExternalStream(handle.value)


@case("alpaka-850", 7.0)
def alpaka_850(repaired: bool) -> Seen:
    d, h = device_block(), torch.zeros(SIZE)
    q = blocking_stream() if repaired else torch.cuda.Stream()
    with on(q):
        d.fill_(7.0)  # kernel
    h.copy_(d)  # cudaMemcpy D2H
    return [h]


@case("bnb-2050", 7.0)
def bnb_2050(repaired: bool) -> Seen:
    s1, g = torch.cuda.Stream(), device_block()
    with on(s1):
        g.fill_(7.0)  # backward
    with on(s1 if repaired else default_stream()):
        update = g * 1  # optimizer update
    return [update]


@case("cutorch-222", 7.0, 8.0)
def cutorch_222(repaired: bool) -> Seen:
    a, b, c = (torch.cuda.Stream() for _ in range(3))
    x, y, e = device_block(), device_block(), torch.cuda.Event()
    with on(a):
        x.fill_(7.0)  # produce x
    with on(b):
        y.fill_(8.0)
    e.record(a)
    if repaired:
        c.wait_event(e)
    e.record(b)
    c.wait_event(e)
    with on(c):
        seen_x = x * 1  # use x
        seen_y = y * 1
    return [seen_x, seen_y]


@case("dali-3950", 1.0, 2.0)
def dali_3950(repaired: bool) -> Seen:
    g, u = torch.cuda.Stream(), torch.cuda.Stream()
    out, ext = device_block(), device_block()
    with on(g):
        out.fill_(1.0)
    u.wait_stream(g)
    with on(u):
        ext.copy_(out)  # copy to external
    if repaired:
        g.wait_stream(u)
    with on(g):
        out.fill_(2.0)  # iteration k+1
    return [ext, out]


@case("dali-4428", 7.0)
def dali_4428(repaired: bool) -> Seen:
    s1, d, p = torch.cuda.Stream(), device_block(1.0), pinned_block(7.0)
    with on(s1 if repaired else default_stream()):
        d.zero_()  # memset
    with on(s1):
        d.copy_(p, non_blocking=True)  # H2D
    return [d]


@case("ds-7898", 7.0)
def ds_7898(repaired: bool) -> Seen:
    x, rp = torch.cuda.Stream(), torch.cuda.Stream()
    g, bucket = device_block(), device_block(blocks=2)
    with on(x):
        g.fill_(7.0)  # backward grad
    rp.wait_stream(x if repaired else default_stream())
    with on(rp):
        bucket[:SIZE].copy_(g)  # copy into bucket
    return [bucket[:SIZE]]


@case("lmc-rtx47", 1.0, 2.0)
def lmc_rtx47(repaired: bool) -> Seen:
    lm, kv, host = torch.cuda.Stream(), device_block(1.0), pinned_block(2.0)
    rpc: queue.Queue[torch.cuda.Event] = queue.Queue()
    seen: Seen = []

    def worker() -> None:
        seen.append(kv * 1)  # attention in flight
        rpc.put(default_stream().record_event())

    def server() -> None:
        event = rpc.get()
        with on(lm):
            if repaired:
                lm.wait_event(event)
            kv.copy_(host, non_blocking=True)  # retrieve H2D

    _run_threads(worker, server)
    return [*seen, kv]


@case("mlm-2652", 7.0, 7.0)
def mlm_2652(repaired: bool) -> Seen:
    setup, p, flat = torch.cuda.Stream(), device_block(), device_block()
    p.fill_(7.0)  # init params
    if repaired:
        setup.wait_stream(default_stream())
    with on(setup):
        flat.copy_(p)  # copy into flat buffer
    if repaired:
        default_stream().wait_stream(setup)
    return [flat * 1, flat]  # first use


@case("ninfer-44", 7.0)
def ninfer_44(repaired: bool) -> Seen:
    # torch's blocking copy waits for its stream; from pageable memory this one is cudaMemcpy's:
    # staged at return, the device's write still to come.
    e, d, h = torch.cuda.Stream(), device_block(), torch.full((SIZE,), 7.0)
    d.copy_(h, non_blocking=True)  # cudaMemcpy H2D
    if repaired:
        default_stream().synchronize()
    with on(e):
        seen = d * 1  # kernel
    return [seen]


@case("pt-45787", 14.0)
def pt_45787(repaired: bool) -> Seen:
    # backward() makes the forward pass's stream wait for the stream that is current at the call.
    side, f = torch.cuda.Stream(), torch.cuda.Stream()
    x, g = device_block(1.0).requires_grad_(), device_block()
    with on(f):
        y = x * 2  # first backward op
    with on(side):
        g.fill_(7.0)  # root grad
    with on(side if repaired else default_stream()):
        (gradient,) = torch.autograd.grad(y, x, g)
    return [gradient]


@case("quad-649", 1.0, 2.0)
def quad_649(repaired: bool) -> Seen:
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
    args, args2 = device_block(), device_block()
    with on(s1):
        args.copy_(torch.full((SIZE,), 1.0), non_blocking=True)  # args of launch 1
        seen = args * 1  # launch 1
    second = args2 if repaired else args
    with on(s2):
        second.copy_(torch.full((SIZE,), 2.0), non_blocking=True)  # args of launch 2
    return [seen, second]


@case("racy-01-views-different-ptr", 7.0)
def racy_01(repaired: bool) -> Seen:
    a, b, st = torch.cuda.Stream(), torch.cuda.Stream(), device_block(7.0, blocks=2)
    st[:SIZE].zero_()
    torch.cuda.synchronize()
    with on(a):
        st[:SIZE].fill_(7.0)  # write view 0
    if repaired:
        b.wait_stream(a)
    with on(b):
        seen = st[SIZE // 2 : 3 * SIZE // 2] * 1  # read view 1
    return [seen]


@case("racy-04-war-bucket", 1.0, 2.0)
def racy_04(repaired: bool) -> Seen:
    c, b = torch.cuda.Stream(), device_block()
    b.fill_(1.0)
    c.wait_stream(default_stream())
    with on(c):
        sent = b * 1  # send k
    if repaired:
        default_stream().wait_stream(c)
    b.fill_(2.0)  # fill k+1
    return [sent, b]


@case("racy-07-event-before-write", 7.0)
def racy_07(repaired: bool) -> Seen:
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    x, e = device_block(), torch.cuda.Event()
    e.record(a)
    with on(a):
        x.fill_(7.0)  # produce
    if repaired:
        e.record(a)
    b.wait_event(e)
    with on(b):
        seen = x * 1  # consume
    return [seen]


@case("racy-11-multi-producer", 7.0)
def racy_11(repaired: bool) -> Seen:
    red, producers = torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(3)]
    bucket = device_block(blocks=3)
    with on(producers[0]):
        bucket[:SIZE].fill_(7.0)  # slice 1
    with on(producers[1]):
        bucket[SIZE : 2 * SIZE].fill_(7.0)
    with on(producers[2]):
        bucket[2 * SIZE :].fill_(7.0)
    for producer in producers if repaired else producers[1:]:
        red.wait_stream(producer)
    with on(red):
        seen = bucket * 1  # all-reduce
    return [seen]


@case("racy-14-nonblocking-vs-legacy", 7.0)
def racy_14(repaired: bool) -> Seen:
    s1 = blocking_stream() if repaired else torch.cuda.Stream()
    x = device_block()
    x.fill_(7.0)  # default stream write
    with on(s1):
        seen = x * 1  # side stream read
    return [seen]


@case("racy-15-sync-memcpy-d2d", 7.0)
def racy_15(repaired: bool) -> Seen:
    s1, x, y = torch.cuda.Stream(), device_block(7.0), device_block()
    y.copy_(x)  # cudaMemcpy D2D
    if repaired:
        default_stream().synchronize()
    with on(s1):
        seen = y * 1  # consume
    return [seen]


@case("racy-18-ipc-second-message", 1.0, 2.0)
def racy_18(repaired: bool) -> Seen:
    c0, t, e = torch.cuda.Stream(), device_block(), torch.cuda.Event()
    messages: queue.Queue[int] = queue.Queue()
    answers: queue.Queue[int] = queue.Queue()
    seen: Seen = []

    def producer() -> None:
        t.fill_(1.0)
        e.record(default_stream())
        messages.put(1)
        answers.get()
        if repaired:
            default_stream().wait_stream(c0)
        t.fill_(2.0)  # version 2
        if repaired:
            e.record(default_stream())
        messages.put(2)

    def consumer() -> None:
        messages.get()
        with on(c0):
            c0.wait_event(e)
            seen.append(t * 1)  # read 1
            answers.put(1)
            messages.get()
            if repaired:
                c0.wait_event(e)
            seen.append(t * 1)  # read 2

    _run_threads(producer, consumer)
    return seen


@case("sgl-18746", 1.0, 2.0)
def sgl_18746(repaired: bool) -> Seen:
    fw, table = torch.cuda.Stream(), device_block(blocks=2).view(2, SIZE)
    table[0].fill_(1.0)
    fw.wait_stream(default_stream())
    with on(fw):
        row = table[0] * 1  # forward N
    if repaired:
        default_stream().wait_stream(fw)
    table[0].fill_(2.0)  # row given to new request
    return [row, table[0]]


@case("trt-14245", 1.0, 2.0)
def trt_14245(repaired: bool) -> Seen:
    ex, mg, pool = torch.cuda.Stream(), torch.cuda.Stream(), device_block(1.0, blocks=2)
    pool[SIZE:].fill_(2.0)
    torch.cuda.synchronize()
    with on(ex):
        seen = pool[:SIZE] * 1  # forward
    if repaired:
        mg.wait_event(ex.record_event())
    with on(mg):
        pool[:SIZE].copy_(pool[SIZE:])  # migrate into recycled slot
    return [seen, pool[:SIZE]]


@case("vllm-46278", 7.0)
def vllm_46278(repaired: bool) -> Seen:
    st, kv, cpu = torch.cuda.Stream(), device_block(blocks=2), pinned_block()
    kv[:SIZE].fill_(7.0)  # kv write
    if repaired:
        st.wait_event(default_stream().record_event())
    with on(st):
        cpu.copy_(kv[:SIZE], non_blocking=True)  # store D2H
    return [cpu]


@case("xla-964", 7.0)
def xla_964(repaired: bool) -> Seen:
    h2d, cmp = torch.cuda.Stream(), torch.cuda.Stream()
    b, p, ready = device_block(), pinned_block(7.0), torch.cuda.Event()
    if not repaired:
        ready.record(cmp)
    with on(h2d):
        b.copy_(p, non_blocking=True)  # H2D
    if repaired:
        ready.record(h2d)
    cmp.wait_event(ready)
    with on(cmp):
        seen = b * 1  # kernel
    return [seen]


def _run_threads(*bodies: object) -> None:
    threads = [threading.Thread(target=body) for body in bodies]  # type: ignore[arg-type] # functions
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
