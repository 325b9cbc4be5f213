"""What watching costs: the same ops and steps unwatched, watched, and under PyTorch's sanitizer.

    make bench-hooks     medians of 7 interleaved runs, with their ranges; status 1 over a bound

Every run is a process of its own on one virtual GPU with values off and the eager schedule, where a
launch costs next to nothing: the host's added time is all there is, so ratios on a GPU are smaller.
Times are process time of the best of several batches, the analysis included. "interposed" has the
library of `streamguard run` preloaded as well. With STREAMGUARD unset nothing is loaded: checked.
"""

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRELOADED = ROOT / "streamguard" / "hooks" / "lib" / "libstreamguard_runtime.so"
ROUNDS = 7
VARIANTS = {
    "unwatched": {},
    "no lines": {"STREAMGUARD": "1", "STREAMGUARD_STACKS": "off"},
    "16 frames": {"STREAMGUARD": "1"},
    "interposed": {"STREAMGUARD": "1", "LD_PRELOAD": str(PRELOADED)},
    "sanitizer": {"TORCH_CUDA_SANITIZER": "1"},
}
WATCHED = ("no lines", "16 frames", "interposed")
# op: most microseconds added without lines, and with 16 frames
BOUNDS_US = {"add": (1.5, 2.0), "add_": (1.5, 2.0), "view": (0.05, 0.05)}
LEAST_SANITIZER_RATIO = 40
COMPARED_WITH_SANITIZER = ("add", "add_")
DEEPSPEED = "0.19.8"
MOST_STEP_RATIO = 1.4


def run_once(variant: str, program: str, output: Path, deepspeed: Path | None) -> dict[str, float]:
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")},
        "STREAMGUARD_VGPU": "1",
        "STREAMGUARD_VGPU_VALUES": "0",
        "OMP_NUM_THREADS": "1",
        **VARIANTS[variant],
    }
    if deepspeed is not None:
        environment["PYTHONPATH"] = str(deepspeed)
    if variant in WATCHED:
        environment["STREAMGUARD_OUTPUT"] = str(output)
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / program), str(free_port())],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{program} as {variant} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    if variant in WATCHED and "SUMMARY streamguard races=0" not in done.stdout + done.stderr:
        sys.exit(f"{program} as {variant} was not watched, or raced:\n{done.stderr[-3000:]}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return listening.getsockname()[1]


def spread(values: list[float], digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def measure(program: str, rounds: int, deepspeed: Path | None) -> dict[str, list[dict[str, float]]]:
    samples: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            print(f"[bench] {program}, round {number + 1} of {rounds}", file=sys.stderr)
            for variant in VARIANTS:
                output = Path(folder) / f"{number}-{variant.replace(' ', '-')}"
                samples[variant].append(run_once(variant, program, output, deepspeed))
    return samples


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    print("\n| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def report_ops(samples: dict[str, list[dict[str, float]]]) -> list[str]:
    print("\nmicroseconds per call; added = watched - unwatched of the same round")
    failures, rows = [], []
    for op in samples["unwatched"][0]:
        base = [sample[op] for sample in samples["unwatched"]]
        added = {
            variant: [s[op] - b for s, b in zip(samples[variant], base, strict=True)]
            for variant in (*WATCHED, "sanitizer")
        }
        medians = {variant: statistics.median(values) for variant, values in added.items()}
        ratio = medians["sanitizer"] / medians["16 frames"] if medians["16 frames"] > 0.05 else None
        rows.append(
            (op, spread(base), *(spread(values) for values in added.values()),
             "-" if ratio is None else f"{ratio:.0f}")
        )  # fmt: skip
        for variant, bound in zip(WATCHED, BOUNDS_US.get(op, ()), strict=False):
            if medians[variant] > bound:
                failures.append(f"{op}, {variant}: {medians[variant]:.2f} us added, bound {bound}")
        if op in COMPARED_WITH_SANITIZER and (ratio or 0) < LEAST_SANITIZER_RATIO:
            failures.append(f"{op}: the sanitizer adds only {ratio:.0f} times as much")
    added_by = tuple(f"{variant} adds" for variant in (*WATCHED, "sanitizer"))
    print_table(("op", "unwatched", *added_by, "sanitizer / 16 frames"), rows)
    return failures


def report_step(samples: dict[str, list[dict[str, float]]]) -> list[str]:
    name = "ZeRO-2 step"
    print(f"\nDeepSpeed {DEEPSPEED}, ZeRO-2, one rank: milliseconds of process time per step")
    base = [sample[name] for sample in samples["unwatched"]]
    rows, failures = [("unwatched", spread(base), "1")], []
    for variant in (*WATCHED, "sanitizer"):
        values = [sample[name] for sample in samples[variant]]
        ratios = [v / b for v, b in zip(values, base, strict=True)]
        rows.append((variant, spread(values), spread(ratios)))
        median = statistics.median(ratios)
        if variant in WATCHED and median > MOST_STEP_RATIO:
            failures.append(f"{name}, {variant}: {median:.2f} times, bound {MOST_STEP_RATIO}")
    print_table(("", "ms", "times the unwatched step of the same round"), rows)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=("ops", "step"))
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    failures = []
    if arguments.only != "step":
        failures += report_ops(measure("ops.py", arguments.rounds, None))
    if arguments.only != "ops":
        release = ROOT / ".deepspeed" / DEEPSPEED
        failures += report_step(measure("zero2_step.py", arguments.rounds, release))
    print("\n" + ("\n".join(f"over its bound: {failure}" for failure in failures) or "in bounds"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
