"""Costs as ratios: the same ops unwatched, under streamguard and under PyTorch's own sanitizer.

    make bench        a table of medians of 7 interleaved runs, with their ranges

Every run is a process of its own on one virtual GPU with values off and the eager schedule, where a
launch costs next to nothing: the host's added time is all there is, so ratios on a GPU are smaller.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 7
VARIANTS = {
    "unwatched": {},
    "streamguard": {"STREAMGUARD": "1"},
    "sanitizer": {"TORCH_CUDA_SANITIZER": "1"},
}


def run_once(variant: str, output: Path) -> dict[str, float]:
    environment = {
        **os.environ,
        "STREAMGUARD_VGPU": "1",
        "STREAMGUARD_VGPU_VALUES": "0",
        "OMP_NUM_THREADS": "1",
        **VARIANTS[variant],
    }
    if variant == "streamguard":
        environment["STREAMGUARD_OUTPUT"] = str(output)
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "ops.py")],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"bench/ops.py as {variant} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def spread(values: list[float], digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def main() -> None:
    samples: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            print(f"[bench] round {number + 1} of {ROUNDS}", file=sys.stderr)
            for variant in VARIANTS:
                samples[variant].append(run_once(variant, Path(folder) / f"{number}"))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print("microseconds of process time per call; added = watched - unwatched of the same round\n")
    header = ("op", "unwatched", "streamguard adds", "sanitizer adds", "sanitizer / streamguard")
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for op in samples["unwatched"][0]:
        base = [sample[op] for sample in samples["unwatched"]]
        ours = [s[op] - b for s, b in zip(samples["streamguard"], base, strict=True)]
        peer = [s[op] - b for s, b in zip(samples["sanitizer"], base, strict=True)]
        ratio = [p / o for p, o in zip(peer, ours, strict=True) if o > 0]
        cells = (op, spread(base), spread(ours), spread(peer), spread(ratio, 0) if ratio else "-")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
