"""Litmus cases in which the caching allocator gives out bytes that another stream still uses."""

from __future__ import annotations

import torch

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


def empty_block() -> torch.Tensor:
    """A block of the current stream with whatever its bytes hold."""
    return torch.empty(SIZE, device="cuda")


@case("dif-14657", 1.0, 2.0)
def dif_14657(repaired: bool) -> Seen:
    tr, c, c2 = torch.cuda.Stream(), pinned_block(1.0), pinned_block(2.0)
    with on(tr):
        w = device_block()
        w.copy_(c, non_blocking=True)
    default_stream().wait_stream(tr)
    seen = w * 1  # forward
    if repaired:
        default_stream().synchronize()
    address = w.data_ptr()
    del w
    with on(tr):
        w2 = empty_block()
        require_reuse(w2, address)
        w2.copy_(c2, non_blocking=True)  # next onload
    return [seen, w2]


@case("fi-4553", 2.0)
def fi_4553(repaired: bool) -> Seen:
    ws, graph = device_block(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ws.add_(1.0)  # captured gemm scratch
    address = ws.data_ptr()
    kept = ws if repaired else None
    del ws  # free ws
    kv = empty_block()
    if kept is None:
        require_reuse(kv, address)
    kv.fill_(2.0)
    graph.replay()
    return [kv]


@case("ort-5445", 1.0, 2.0)
def ort_5445(repaired: bool) -> Seen:
    cm, cp, p = torch.cuda.Stream(), torch.cuda.Stream(), pinned_block()
    with on(cm):
        a = device_block(1.0)
    with on(cm if repaired else cp):
        p.copy_(a, non_blocking=True)  # D2H copy
    address = a.data_ptr()
    del a
    with on(cm):
        b = empty_block()
        require_reuse(b, address)
        b.fill_(2.0)  # compute B
    return [p, b]


@case("racy-06-reuse-suballocated", 1.0, 2.0)
def racy_06(repaired: bool) -> Seen:
    a, b = torch.cuda.Stream(), torch.cuda.Stream()
    with on(a):
        t = device_block(1.0, blocks=2)
    b.wait_stream(a)
    with on(b):
        seen = t * 1  # consume
    if repaired:
        a.wait_stream(b)
    address = t.data_ptr()
    del t
    with on(a):
        head, u = empty_block(), torch.empty(SIZE // 2, device="cuda")
        require_reuse(head, address)
        require_reuse(u, address + 4 * SIZE)
        u.fill_(2.0)  # small next tenant
    return [seen, u]


@case("sgl-34076", 1.0, 2.0)
def sgl_34076(repaired: bool) -> Seen:
    sch, fw = torch.cuda.Stream(), torch.cuda.Stream()
    with on(sch):
        idx = device_block()
        idx.fill_(1.0)
    fw.wait_stream(sch)
    with on(fw):
        seen = idx * 1  # relay gather
    if repaired:
        idx.record_stream(fw)
    address = idx.data_ptr()
    del idx
    with on(sch):
        z = empty_block()
        if not repaired:
            require_reuse(z, address)
        z.fill_(2.0)  # next tenant
    return [seen, z]


@case("timm-2784", 1.0, 2.0)
def timm_2784(repaired: bool) -> Seen:
    pf, h, h2 = torch.cuda.Stream(), pinned_block(1.0), pinned_block(2.0)
    with on(pf):
        b0 = device_block()
        b0.copy_(h, non_blocking=True)
    default_stream().wait_stream(pf)
    seen = b0 * 1  # train step 0
    address = b0.data_ptr()
    del b0
    if repaired:
        pf.wait_stream(default_stream())
    with on(pf):
        b1 = empty_block()
        require_reuse(b1, address)
        b1.copy_(h2, non_blocking=True)  # H2D batch 1
    return [seen, b1]


@case("trec-4218", 1.0, 2.0)
def trec_4218(repaired: bool) -> Seen:
    d2h, p, w = torch.cuda.Stream(), pinned_block(), device_block()
    w.fill_(1.0)
    d2h.wait_stream(default_stream())
    with on(d2h):
        p.copy_(w, non_blocking=True)  # stash D2H
    if repaired:
        w.record_stream(d2h)
    address = w.data_ptr()
    w.untyped_storage().resize_(0)
    act = empty_block()
    if not repaired:
        require_reuse(act, address)
    act.fill_(2.0)  # forward activation
    return [p, act]


@case("trec-4497", 7.0, 8.0)
def trec_4497(repaired: bool) -> Seen:
    dd, cur = torch.cuda.Stream(), torch.cuda.Stream()
    with on(dd):
        kjt = device_block()
        kjt.fill_(7.0)  # input dist
    if repaired:
        cur.wait_stream(dd)
    with on(cur):
        seen = kjt * 1  # lookup
    if repaired:
        kjt.record_stream(cur)
    address = kjt.data_ptr()
    del kjt
    with on(dd):
        kjt2 = empty_block()
        if not repaired:
            require_reuse(kjt2, address)
        kjt2.fill_(8.0)  # next input dist
    return [seen, kjt2]
