"""ProcessGroupNCCL over the virtual GPU: every collective gives the right values on every rank."""

from __future__ import annotations

import pytest
from conftest import RunVgpu

_IMPORT = "from nccl_program import *\n"
_COLLECTIVES = (
    _IMPORT
    + """
start(bind_device=True)
peer = (rank + 1) % world
t = tensor(rank + 1, 2); dist.all_reduce(t); show("all_reduce", t)
t = tensor(rank + 1, 2); dist.all_reduce(t, dist.ReduceOp.AVG); show("avg", t)
t = tensor(rank + 1, 2); dist.all_reduce(t, dist.ReduceOp.MAX); show("max", t)
t = tensor(rank + 1, 2); dist.all_reduce(t, dist.ReduceOp.MIN); show("min", t)
t = tensor(rank + 1, 2); dist.all_reduce(t, dist.ReduceOp.PRODUCT); show("prod", t)
t = tensor(rank + 1, 2); dist.all_reduce(t, dist._make_nccl_premul_sum(0.5)); show("premul", t)
t = tensor(rank + 1); dist.reduce(t, 1); show("reduce", t)
t = tensor(rank + 5); dist.broadcast(t, 1); show("broadcast", t)
o = empty(2 * world); dist.all_gather_into_tensor(o, tensor(rank, 9)); show("all_gather", o)
o = [empty(1 + r) for r in range(world)]
dist.all_gather(o, tensor(*[rank] * (1 + rank))); show("all_gather uneven", *o)
o = empty(2); dist.reduce_scatter_tensor(o, tensor(*range(2 * world))); show("reduce_scatter", o)
o = empty(1); dist.reduce_scatter(o, [tensor(rank + 10 * r) for r in range(world)])
show("reduce_scatter list", o)
o = empty(world); dist.all_to_all_single(o, tensor(*[10 * rank + r for r in range(world)]))
show("all_to_all", o)
o = [empty(1) for _ in range(world)]
dist.gather(tensor(rank), o if rank == 0 else None, 0)
show("gather", *(o if rank == 0 else []))
o = empty(1); dist.scatter(o, [tensor(7 + r) for r in range(world)] if rank == 0 else None, 0)
show("scatter", o)
o = empty(1)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor(rank), peer),
                                    dist.P2POp(dist.irecv, o, (rank - 1) % world)]): work.wait()
show("ring", o)
with dist._coalescing_manager(async_ops=True) as manager:
    ts = [tensor(rank), tensor(10 + rank)]
    for t in ts: dist.all_reduce(t)
manager.wait(); show("coalesced", *ts)
group = dist.new_group([0, 1])
t = tensor(1)
if rank < 2: dist.all_reduce(t, group=group)
show("new_group", t)
split = dist.split_group(split_ranks=[list(range(world))])
t = tensor(rank); dist.all_reduce(t, group=split); show("split", t)
t = tensor(1); graph = torch.cuda.CUDAGraph(); dist.all_reduce(t); torch.cuda.synchronize()
with torch.cuda.graph(graph): dist.all_reduce(t)
graph.replay(); graph.replay(); show("graph", t)
dist.barrier(); dist.destroy_process_group()
"""
)


def _expected(rank: int, world: int) -> dict[str, str]:
    ranks = range(world)
    total = sum(r + 1 for r in ranks)
    product = 6.0 if world == 3 else 2.0
    return {
        "all_reduce": f"[[{total:.1f}, {2.0 * world}]]",
        "avg": f"[[{total / world}, 2.0]]",
        "max": f"[[{max(2, world):.1f}, 2.0]]".replace(f"{max(2, world):.1f}", f"{world:.1f}"),
        "min": "[[1.0, 2.0]]",
        "prod": f"[[{product}, {2.0**world}]]",
        "premul": f"[[{total / 2}, {float(world)}]]",
        # The other ranks' buffers keep their values.
        "reduce": f"[[{total if rank == 1 else rank + 1:.1f}]]",
        "broadcast": "[[6.0]]",
        "all_gather": str([[v for r in ranks for v in (float(r), 9.0)]]),
        "all_gather uneven": str([[float(r)] * (1 + r) for r in ranks]),
        "reduce_scatter": str([[float(2 * rank * world), float((2 * rank + 1) * world)]]),
        "reduce_scatter list": str([[float(sum(ranks) + 10 * rank * world)]]),
        "all_to_all": str([[float(10 * r + rank) for r in ranks]]),
        "gather": str([[float(r)] for r in ranks] if rank == 0 else []),
        "scatter": str([[float(7 + rank)]]),
        "ring": str([[float((rank - 1) % world)]]),
        "coalesced": str([[float(sum(ranks))], [float(sum(ranks) + 10 * world)]]),
        "new_group": str([[2.0 if rank < 2 else 1.0]]),
        "split": str([[float(sum(ranks))]]),
        "graph": str([[float(world**3)]]),
    }


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:5"])
def test_collectives_are_right_on_every_rank(run_vgpu: RunVgpu, schedule: str, ranks: int) -> None:
    """Reductions, gathers, scatters, point-to-point, groups, splits and captured collectives."""
    for rank, finished in enumerate(run_vgpu(_COLLECTIVES, schedule=schedule, ranks=ranks)):
        shown = dict(line.split(" [", 1) for line in finished.lines)
        values = {name: "[" + text for name, text in shown.items()}

        assert values == _expected(rank, ranks)


@pytest.mark.parametrize(
    ("dtype", "inputs", "expected"),
    [
        # float16: 2048 + 1 + 1 in float16 alone stays 2048; in float32 it is 2050.
        ("float16", (2048, 1, 1), 2050.0),
        # bfloat16: 256 + 0.5 + 0.5 is 257 before rounding, which ties to the even 256.
        ("bfloat16", (256, 0.5, 0.5), 256.0),
        ("bfloat16", (256, 1, 1), 258.0),
        ("float32", (16777216, 1, 1), 16777216.0),  # rank order: each 1 is lost
        ("float64", (16777216, 1, 1), 16777218.0),
        ("int64", (2**40, 1, 1), 2**40 + 2),
        ("uint8", (255, 1, 1), 1),
        ("int8", (127, 1, 0), -128),
    ],
)  # fmt: skip
def test_sums_are_rounded_once_in_rank_order(
    run_vgpu: RunVgpu, dtype: str, inputs: tuple[float, ...], expected: float
) -> None:
    """Short floats are summed in float32 and rounded at the end; integers wrap."""
    code = (
        _IMPORT
        + f"""
start(); t = torch.tensor({inputs}[rank], dtype=torch.{dtype}).reshape(1).cuda()
dist.all_reduce(t); print(t.cpu().item()); dist.destroy_process_group()
"""
    )
    for finished in run_vgpu(code, ranks=3):
        assert finished.lines == [str(expected)]


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_large_uneven_buffer_is_reduced(run_vgpu: RunVgpu, schedule: str) -> None:
    """Sizes beyond one block, and not a multiple of it."""
    code = (
        _IMPORT
        + """
start(); n = 3_000_001
host = torch.arange(n, dtype=torch.float32) % 1000
t = (host * (rank + 1)).cuda(); dist.all_reduce(t)
print(torch.equal(t.cpu(), host * 3)); dist.destroy_process_group()
"""
    )
    for finished in run_vgpu(code, ranks=2, schedule=schedule):
        assert finished.lines == ["True"]


def test_one_process_can_hold_all_ranks(run_vgpu: RunVgpu) -> None:
    """ncclCommInitAll, grouped and ungrouped calls of two ranks from one thread."""
    code = """
from raw_cuda import *
nccl = ctypes.CDLL("libnccl.so.2")
comms = (Pointer * 2)()
assert nccl.ncclCommInitAll(comms, 2, None) == 0
buffers, streams = [], []
for device in range(2):
    ok("cudaSetDevice", device); buffers.append(device_memory(1)); streams.append(new_stream())
    fill(buffers[-1], 1 + device, 1, streams[-1])
def all_reduce(r):
    n = ctypes.c_size_t(1)
    return nccl.ncclAllReduce(buffers[r], buffers[r], n, 1, 0, Pointer(comms[r]), streams[r])
nccl.ncclGroupStart(); print(all_reduce(0), all_reduce(1)); nccl.ncclGroupEnd()
all_reduce(0); all_reduce(1)
for stream in streams: sync(stream)
print([byte_at(b) for b in buffers])
print([nccl.ncclCommDestroy(Pointer(c)) for c in comms], nccl.ncclCommDestroy(Pointer(comms[0])))
"""
    for schedule in ("eager", "lazy"):
        lines = run_vgpu(code, devices=2, schedule=schedule)[0].lines

        assert lines == ["0 0", "[6, 6]", "[0, 0] 4"]
