"""The soak of `make soak`: trains on two virtual GPUs under many schedules, against the CPU.

DDP, FSDP2, ZeRO-1/2/3 and ZeRO-Offload; each as many runs under lazy, random and PCT
schedules as RUNS says. The runs of one training share one pair of processes. Status 1 if any run
differs from the CPU.
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
sys.path.insert(0, str(ROOT))  # for the tests package


def soak(training: str, runs: int, first_seed: int, *, quiet: bool = False) -> dict[str, object]:
    """Run one training `runs` times under each policy; what rank 0 counted."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    environment |= {
        "STREAMGUARD_VGPU": "2",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(ROOT),
        "DS_IGNORE_CUDA_DETECTION": "1",
    }
    launcher = [str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc_per_node=2"]
    program = ["-m", "tests.soak.program", training, str(runs), str(first_seed)]
    process = subprocess.Popen(
        [*launcher, *program],
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
        if line.startswith("{"):
            last = line
    if process.wait() != 0 or not last:
        errors = process.stderr.read() if process.stderr is not None else ""
        raise SystemExit(
            f"soak: {training} ended with status {process.returncode}\n{errors[-4000:]}"
        )
    outcome: dict[str, object] = json.loads(last)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="of each training and policy")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("trainings", nargs="*", metavar="TRAINING", help=", ".join(TRAININGS))
    arguments = parser.parse_args()
    unknown = set(arguments.trainings) - set(TRAININGS)
    if unknown or arguments.runs < 1:
        parser.error(f"expected one or more runs of {', '.join(TRAININGS)}")
    wrong = 0
    for training in arguments.trainings or TRAININGS:
        begin = time.monotonic()
        outcome = soak(training, arguments.runs, arguments.first_seed)
        failed = outcome["wrong"]
        wrong += len(failed)
        print(
            f"{training}: {outcome['runs']} runs, {len(failed)} wrong, {outcome['bitwise']} equal "
            f"to the CPU bit by bit, largest difference {outcome['largest']:.3g}, "
            f"{outcome['rescues']} timed rescues, {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
