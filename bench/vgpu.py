"""What the virtual GPU adds: per op, at start-up, and the demo's run; with the bounds it must keep.

    make bench-vgpu       medians of 7 interleaved runs, with their ranges; status 1 over a bound

Times per op and of the start are process time, so that other programs on the machine do not count;
the demo's run is wall time. The start is compared with torch's CPU build (`build/cpu_torch`).
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPU_TORCH = ROOT / "build" / "cpu_torch"
ROUNDS = 7
# name: schedule, values, most microseconds added per op
VARIANTS = {
    "eager, values on": ("eager", "1", 6.0),
    "lazy, values on": ("lazy", "1", 10.0),
    "eager, values off": ("eager", "0", 2.5),
}
FIRST_OP = "import torch; torch.ones(2, device={device!r}).add(1).sum().item()"
START_BOUND, DEMO_BOUND_S = 1.5, 20.0


def environment(**extra: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    return {**kept, "OMP_NUM_THREADS": "1", **extra}


def run(command: list[str], variables: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def added_per_op(schedule: str, values: str) -> dict[str, float]:
    variables = environment(
        STREAMGUARD_VGPU="1", STREAMGUARD_VGPU_SCHEDULE=schedule, STREAMGUARD_VGPU_VALUES=values
    )
    output = run([sys.executable, "bench/vgpu_ops.py"], variables)
    return {op: times["added"] for op, times in json.loads(output.splitlines()[-1]).items()}


def start_s(device: str) -> float:
    """Process time from the interpreter's start to the first op's result."""
    variables = environment(PYTHONPATH=str(CPU_TORCH))
    if device == "cuda":
        variables = environment(STREAMGUARD_VGPU="1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([sys.executable, "-c", FIRST_OP.format(device=device)], variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def demo_s() -> float:
    """Wall time of the demo's two-rank run on DeepSpeed, report included."""
    release = ROOT / ".deepspeed" / "0.17.2"
    with tempfile.TemporaryDirectory() as folder:
        streamguard = str(Path(sys.executable).parent / "streamguard")
        launcher = str(Path(sys.executable).parent / "torchrun")
        command = [streamguard, "run", "--vgpu", "2", "--output", folder, "--", launcher]
        command += ["--standalone", "--nproc_per_node", "2", "examples/train_zero2.py"]
        begin = time.monotonic()
        done = subprocess.run(
            command, cwd=ROOT, env=environment(PYTHONPATH=str(release)), capture_output=True,
        )  # fmt: skip
        if done.returncode != 66:
            sys.exit(f"the demo's run ended with {done.returncode}, not with its race")
        return time.monotonic() - begin


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def verdict(values: list[float], bound: float) -> str:
    return "ok" if statistics.median(values) <= bound else "OVER"


def main() -> int:
    per_op: dict[str, list[dict[str, float]]] = {name: [] for name in VARIANTS}
    starts: dict[str, list[float]] = {"cuda": [], "cpu": []}
    demo = []
    devices = ["cuda", "cpu"] if CPU_TORCH.is_dir() else ["cuda"]
    for number in range(ROUNDS):
        print(f"[bench] round {number + 1} of {ROUNDS}", file=sys.stderr)
        for name, (schedule, values, _) in VARIANTS.items():
            per_op[name].append(added_per_op(schedule, values))
        for device in devices:
            starts[device].append(start_s(device))
        demo.append(demo_s())
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"median (least-most) of {ROUNDS} runs; us per op over the same op on the CPU\n")
    ops = list(per_op["eager, values on"][0])
    print("| | " + " | ".join([*ops, "median of the ops", "bound"]) + " | |")
    print("|---" * (len(ops) + 4) + "|")
    verdicts = []
    for name, (_, _, bound) in VARIANTS.items():
        medians = [statistics.median(sample.values()) for sample in per_op[name]]
        cells = [spread([sample[op] for sample in per_op[name]]) for op in ops]
        verdicts.append(verdict(medians, bound))
        print("| " + " | ".join([name, *cells, spread(medians), str(bound), verdicts[-1]]) + " |")
    print(f"\nimport torch and first op: {spread(starts['cuda'])} s of process time", end="")
    if starts["cpu"]:
        ratios = [one / other for one, other in zip(starts["cuda"], starts["cpu"], strict=True)]
        verdicts.append(verdict(ratios, START_BOUND))
        print(f"; torch's CPU build {spread(starts['cpu'])} s; ratio {spread(ratios)}, ", end="")
        print(f"bound {START_BOUND}: {verdicts[-1]}")
    else:
        print("; torch's CPU build is not installed in build/cpu_torch: not compared")
    verdicts.append(verdict(demo, DEMO_BOUND_S))
    print(f"the demo's run on two ranks: {spread(demo)} s, bound {DEMO_BOUND_S}: {verdicts[-1]}")
    return 1 if "OVER" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
