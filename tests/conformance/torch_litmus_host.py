"""Litmus cases in which the host reads or overwrites memory that a copy still uses."""

from __future__ import annotations

import torch

from tests.conformance.torch_litmus import case, default_stream, device_block, on, pinned_block

Seen = list[torch.Tensor]


@case("dali-1475", 1.0)
def dali_1475(repaired: bool) -> Seen:
    st, a, d = torch.cuda.Stream(), pinned_block(), device_block()
    a.fill_(1.0)
    with on(st):
        d.copy_(a, non_blocking=True)  # H2D args k
    if repaired:
        st.record_event().synchronize()
    a.fill_(2.0)  # args run k+1
    return [d]


@case("dali-5820", 7.0)
def dali_5820(repaired: bool) -> Seen:
    g, s2, x, p = torch.cuda.Stream(), torch.cuda.Stream(), device_block(7.0), pinned_block()
    with on(g):
        p.copy_(x, non_blocking=True)  # D2H in producer
    e = g.record_event()
    if repaired:
        e.synchronize()
    else:
        s2.wait_event(e)
    return [p * 1]  # cpu operator


@case("dgl-3971", 7.0)
def dgl_3971(repaired: bool) -> Seen:
    state, p = device_block(), pinned_block()
    state.fill_(7.0)
    p.copy_(state, non_blocking=True)  # state D2H
    if repaired:
        default_stream().record_event().synchronize()
    return [p * 1]  # cpu scatter


@case("ggml-8897", 1.0)
def ggml_8897(repaired: bool) -> Seen:
    c, d = pinned_block(), device_block()
    c.fill_(1.0)
    d.copy_(c, non_blocking=True)  # H2D batch k
    if repaired:
        default_stream().record_event().synchronize()
    c.fill_(2.0)  # cpu op batch k+1
    return [d]


@case("racy-09-pinned-overwrite", 1.0)
def racy_09(repaired: bool) -> Seen:
    a, p, d = torch.cuda.Stream(), pinned_block(), device_block()
    p.fill_(1.0)
    with on(a):
        d.copy_(p, non_blocking=True)  # H2D 0
    if repaired:
        a.synchronize()
    p.fill_(2.0)  # batch 1
    return [d]


@case("racy-13-query-notready", 7.0)
def racy_13(repaired: bool) -> Seen:
    a, d, p = torch.cuda.Stream(), device_block(7.0), pinned_block()
    with on(a):
        p.copy_(d, non_blocking=True)  # D2H
    e = a.record_event()
    is_done = e.query()
    while repaired and not is_done:
        is_done = e.query()
    return [p * 1]  # use result


@case("trl-7195", 7.0)
def trl_7195(repaired: bool) -> Seen:
    x, tr, c, act = torch.cuda.Stream(), torch.cuda.Stream(), pinned_block(), device_block()
    with on(x):
        act.fill_(7.0)  # forward op
    tr.wait_stream(x if repaired else default_stream())
    with on(tr):
        c.copy_(act, non_blocking=True)  # offload D2H
    return [c]


@case("vllm-25279", 1.0)
def vllm_25279(repaired: bool) -> Seen:
    p, d = pinned_block(), device_block()
    p.fill_(1.0)
    d.copy_(p, non_blocking=True)  # H2D step N
    if repaired:
        default_stream().record_event().synchronize()
    p.fill_(2.0)  # state step N+1
    return [d]
