"""What recording and comparing collectives costs: `make bench-collectives`.

record    CPU time of one call on PyTorch's fake backend, without and with the recorder
checking  CPU time of the thread that compares behind the run, within DDP steps of two ranks
strict    wall time of an all_reduce of 4 KiB between two ranks over gloo: bare, under the strict
          check, and under ProcessGroupWrapper (TORCH_DISTRIBUTED_DEBUG=DETAIL), interleaved
scale     the comparison of 10,000 ranks of 10,000 collectives each, from synthetic records
"""

import argparse
import json
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))


def run_worker(mode: str, ranks: int, **environ: str) -> list[dict[str, float]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as output:
        processes = []
        for rank in range(ranks):
            here = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
            here |= {
                "STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_VALUES": "0", "OMP_NUM_THREADS": "1",
                "STREAMGUARD_OUTPUT": output, "STREAMGUARD_RUN": "bench", "RANK": str(rank),
                "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                **environ,
            }  # fmt: skip
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(ROOT / "bench" / "collectives_worker.py"), mode],
                    env=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
        results = []
        for process in processes:
            out, error = process.communicate(timeout=300)
            lines = [line for line in out.splitlines() if line.startswith("RESULT ")]
            if process.returncode != 0 or len(lines) != 1:
                raise SystemExit(f"{mode} failed:\n{error[-2000:]}")
            results.append(json.loads(lines[0].removeprefix("RESULT ")))
    return results


def scale(ranks: int, calls: int) -> str:
    """Time `judge` over ranks of which two differ in one call each, and one is behind."""
    from streamguard.collectives.desync import judge
    from streamguard.collectives.plan import OptimizerPlan, compare
    from streamguard.collectives.views import Stream, View

    chance = np.random.default_rng(0)
    world = tuple(range(ranks))
    calls_of_all = chance.integers(0, 2**63, calls // 2, np.uint64)
    begin = time.perf_counter()
    views = {}
    for rank in world:
        first = rank - rank % 8
        node = tuple(range(first, first + 8))
        on_node = calls_of_all ^ np.uint64(first)
        views[rank] = View(
            rank,
            members={"world": world, f"node{first}": node},
            names={"world": "world", f"node{first}": "node"},
            streams={"world": Stream(0, calls_of_all.copy()), f"node{first}": Stream(0, on_node)},
        )
    made = time.perf_counter() - begin
    begin = time.perf_counter()
    assert judge(views).kind == "agreed"
    agreed = time.perf_counter() - begin
    views[ranks // 3].streams["world"].fingerprints[calls // 2 - 7] ^= np.uint64(1)
    begin = time.perf_counter()
    verdict = judge(views)
    differing = time.perf_counter() - begin
    found = verdict.kind, verdict.culprits, verdict.position
    assert found == ("mismatch", (ranks // 3,), calls // 2 - 7), found
    views[ranks // 3].streams["world"].fingerprints[calls // 2 - 7] ^= np.uint64(1)
    views[9].streams["world"] = Stream(0, calls_of_all[:-1].copy())
    begin = time.perf_counter()
    verdict = judge(views)
    stalled = time.perf_counter() - begin
    assert (verdict.kind, verdict.culprits) == ("slow", (9,)), verdict.kind
    plans = [OptimizerPlan(r, "DeepSpeedZeroOptimizer", ((8,), (1,)), (), world) for r in world]
    begin = time.perf_counter()
    assert compare(plans) == ""
    planned = time.perf_counter() - begin
    plans[-1] = OptimizerPlan(ranks - 1, "DeepSpeedZeroOptimizer", ((8,),), (), world)
    begin = time.perf_counter()
    assert "it hangs" in compare(plans)
    planned += time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    total = agreed + differing + stalled + planned
    return (
        f"scale     {ranks} ranks x {calls} collectives: agreed {agreed:.1f} s, one call differs "
        f"{differing:.1f} s, one rank behind {stalled:.1f} s, plans {planned:.1f} s; all "
        f"{total:.1f} s (making the records {made:.1f} s), peak memory {peak:.2f} GiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only-scale", action="store_true", help="the last part alone")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    if not arguments.only_scale:
        one = run_worker("record", 1)[0]
        added = one["recorded_ns"] - one["bare_ns"]
        print(
            f"record    {added:.0f} ns a call: {one['bare_ns']:.0f} "
            f"[{one['bare_min_ns']:.0f}, {one['bare_max_ns']:.0f}] -> {one['recorded_ns']:.0f} "
            f"[{one['recorded_min_ns']:.0f}, {one['recorded_max_ns']:.0f}] ns"
        )
        step = run_worker("step", 2, STREAMGUARD_COLLECTIVES="async")[1]
        share = step["watch_cpu_ns"] / step["step_ns"]
        print(
            f"checking  {share:.2%} of a DDP step: {step['watch_cpu_ns'] / 1e3:.0f} of "
            f"{step['step_ns'] / 1e3:.0f} us are CPU time of the thread that compares"
        )
        times: dict[str, list[float]] = {"bare": [], "strict": [], "wrapper": []}
        for _ in range(ROUNDS):
            for name, environ in (
                ("bare", {}),
                ("strict", {"STREAMGUARD_COLLECTIVES": "strict"}),
                ("wrapper", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
            ):
                times[name].append(run_worker("call", 2, **environ)[0]["median_ns"] / 1e3)
        for name, values in times.items():
            print(
                f"strict    {name:8} {statistics.median(values):8.0f} us a call "
                f"[{min(values):.0f}, {max(values):.0f}]"
            )
    print(scale(10_000, 10_000))


if __name__ == "__main__":
    main()
