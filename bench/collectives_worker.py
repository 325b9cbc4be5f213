"""One rank of bench/collectives.py: prints what its mode measured, as one line of JSON."""

import json
import os
import statistics
import sys
import threading
import time

import torch
import torch.distributed as dist

CALLS = 2000


def record_cost() -> dict[str, float]:
    """CPU time of one call that moves nothing, with and without the recorder, interleaved."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from streamguard.collectives import recording

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    tensor = torch.ones(4)

    def one_round() -> float:
        begin = time.thread_time_ns()
        for _ in range(CALLS):
            dist.all_reduce(tensor)
        return (time.thread_time_ns() - begin) / CALLS

    one_round()
    bare = [one_round() for _ in range(9)]
    native = recording.load_native()
    assert native.install() > 0
    seen: list[int] = []
    native.start("/dev/shm/bench.ring", 1 << 15, 16, False, lambda *group: None, seen.append,
                 lambda *call: "")  # fmt: skip
    one_round()
    recorded = [one_round() for _ in range(9)]
    os.unlink("/dev/shm/bench.ring")  # noqa: PTH108
    assert seen, "nothing was recorded"
    return {
        "bare_ns": statistics.median(bare),
        "recorded_ns": statistics.median(recorded),
        "bare_min_ns": min(bare), "bare_max_ns": max(bare),
        "recorded_min_ns": min(recorded), "recorded_max_ns": max(recorded),
    }  # fmt: skip


def call_time() -> dict[str, float]:
    """Wall time of one small all_reduce between two ranks."""
    dist.init_process_group("gloo")
    tensor = torch.ones(1024)
    times = []
    for _ in range(300):
        begin = time.perf_counter_ns()
        dist.all_reduce(tensor)
        times.append(time.perf_counter_ns() - begin)
    dist.destroy_process_group()
    return {"median_ns": statistics.median(times[50:]), "min_ns": min(times[50:])}


def step_share() -> dict[str, float]:
    """CPU time of the watch thread within DDP steps, beside the time of a step."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(768, 768) for _ in range(8)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(64, 768)

    def step() -> None:
        model(data).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(5):
        step()
    watch = [t for t in threading.enumerate() if t.name == "streamguard-watch"]
    assert len(watch) == 1, "nobody watches"
    clock = time.pthread_getcpuclockid(watch[0].ident)
    begin, watch_begin = time.perf_counter_ns(), time.clock_gettime_ns(clock)
    for _ in range(100):
        step()
    total, watched = time.perf_counter_ns() - begin, time.clock_gettime_ns(clock) - watch_begin
    dist.destroy_process_group()
    return {"step_ns": total / 100, "watch_cpu_ns": watched / 100}


MODES = {"record": record_cost, "call": call_time, "step": step_share}
print("RESULT " + json.dumps(MODES[sys.argv[1]]()), flush=True)
