"""The soak of `make soak`: trains on two virtual GPUs under many schedules, against the CPU.

DDP, FSDP2, ZeRO-1/2/3 and ZeRO-Offload; each as many runs under lazy, random and PCT schedules as
RUNS says. The runs of one training share one pair of processes, in which every run starts its
schedule anew and builds model, optimizer and engine. Status 1 if any run differs from the CPU, or
if memory grows with the runs. A wrong run is repeated alone by `--token`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAININGS = ("ddp", "fsdp2", "zero1", "zero2", "zero3", "offload2", "offload3")
TOLERANCE = 1e-6
# What a rank's memory may grow by over all runs: a leak of one model a run is 1 MiB in 400 runs.
GROWTH_MIB = 32


def tokens(runs: int, first_seed: int) -> list[str]:
    """`runs` runs of each policy, in turn."""
    found = []
    for seed in range(first_seed, first_seed + runs):
        found += ["lazy", f"random:{seed}", f"pct:{seed}"]
    return found


def soak(training: str, schedules: list[str], *, quiet: bool = False) -> dict[str, object]:
    """Run one training once under each schedule; what the ranks found, together."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    environment |= {
        "STREAMGUARD_VGPU": "2",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(ROOT),
        "DS_IGNORE_CUDA_DETECTION": "1",
    }
    launcher = [str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc_per_node=2"]
    process = subprocess.Popen(
        [*launcher, "-m", "tests.soak.program", training, *schedules],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if quiet else None,
        text=True,
    )
    last = ""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(f"{training}: ") and not quiet:
            print(line, end="", flush=True)
        if line.startswith("["):
            last = line
    if process.wait() != 0 or not last.startswith("[{"):
        errors = process.stderr.read() if process.stderr is not None else ""
        raise SystemExit(
            f"soak: {training} ended with status {process.returncode}\n{errors[-4000:]}"
        )
    return _together(len(schedules), json.loads(last))


def _together(runs: int, ranks: list[dict[str, object]]) -> dict[str, object]:
    worst: dict[str, float] = {}
    for rank in ranks:
        for token, difference in rank["differences"].items():
            worst[token] = max(difference, worst.get(token, 0.0), key=_order)
    return {
        "runs": runs,
        "wrong": [token for token, difference in worst.items() if not difference <= TOLERANCE],
        "largest": max(worst.values(), key=_order),
        "grown_mib": max(rank["grown_mib"] for rank in ranks),
        "rescues": sum(rank["rescues"] for rank in ranks),
    }


def _order(difference: float) -> float:
    return difference if difference == difference else float("inf")  # NaN is the worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="of each training and policy")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--token", help="this schedule alone, --runs times")
    parser.add_argument("trainings", nargs="*", metavar="TRAINING", help=", ".join(TRAININGS))
    arguments = parser.parse_args()
    unknown = set(arguments.trainings) - set(TRAININGS)
    if unknown or arguments.runs < 1:
        parser.error(f"expected one or more runs of {', '.join(TRAININGS)}")
    schedules = tokens(arguments.runs, arguments.first_seed)
    if arguments.token:
        schedules = [arguments.token] * arguments.runs
    is_good = True
    for training in arguments.trainings or TRAININGS:
        begin = time.monotonic()
        outcome = soak(training, schedules)
        wrong = outcome["wrong"]
        is_good = is_good and not wrong and outcome["grown_mib"] <= GROWTH_MIB
        print(
            f"{training}: {outcome['runs']} runs, {len(wrong)} schedules with a wrong one"
            f"{' (' + ', '.join(wrong) + ')' if wrong else ''}, largest difference from the CPU "
            f"{outcome['largest']:.3g}, {outcome['rescues']} timed rescues, memory grown by "
            f"{outcome['grown_mib']:.1f} MiB, {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
