"""Find a real race of DeepSpeed without a GPU, then run a release that has it repaired.

`make demo` runs this. Both runs are unmodified DeepSpeed under torchrun with two ranks and
ProcessGroupNCCL, on two virtual GPUs. The exit status is 0 only if the expected pair was found.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / ".demo"
BIN = Path(sys.executable).parent
BAD_RELEASE, NEWEST_RELEASE = "0.17.2", "0.19.8"
SCRIPT = "examples/train_zero2.py"


def run_watched(name: str, release: str, *arguments: str) -> tuple[int, Path]:
    """Run the training script under one DeepSpeed release; return its status and its records."""
    output = OUTPUT / name
    shutil.rmtree(output, ignore_errors=True)
    # torch deprecates what DeepSpeed imports; not what this demo is about
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore::FutureWarning"}
    environment = {**os.environ, **quiet}
    folder = ROOT / ".deepspeed" / release
    if folder.exists():  # the newest release is in .venv itself
        environment["PYTHONPATH"] = str(folder)
    options = ["--vgpu", "2", "--output", str(output), "--accesses", "ipg_buffer[*]"]
    # --standalone: torchrun picks a free port
    launcher = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", "2"]
    command = [str(BIN / "streamguard"), "run", *options, "--", *launcher, SCRIPT, *arguments]
    shown = f"streamguard run --vgpu 2 -- torchrun --nproc_per_node 2 {SCRIPT} "
    print(f"\n=== DeepSpeed {release}: {shown}{' '.join(arguments)}", flush=True)
    begin = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    print(f"=== ended with status {status} after {time.monotonic() - begin:.0f} s", flush=True)
    return status, output


def races_in(output: Path) -> list[dict[str, object]]:
    command = [str(BIN / "streamguard"), "merge", "--json", str(output)]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    return [record for record in records if record["type"] == "race"]


def is_refill_of_reducing_bucket(race: dict[str, object]) -> bool:
    """Whether the pair is the reduction on `reduction_stream` against the copy into its bucket."""
    first, second = race["first"], race["second"]
    return (
        first["stream"]["name"] == "reduction_stream"
        and second["op"] == "aten::copy_"
        and second["stream"]["name"] != "reduction_stream"
        and any("ipg_bucket" in name["name"] for name in race["overlap"]["names_second"])
    )


def main() -> int:
    status, output = run_watched("race", BAD_RELEASE)
    found = [race for race in races_in(output) if is_refill_of_reducing_bucket(race)]
    newest_status, newest_output = run_watched(
        "producers", NEWEST_RELEASE, "--scenario", "producers"
    )
    newest = races_in(newest_output)

    print("\n=== What this showed")
    print(f"DeepSpeed {BAD_RELEASE}: {len(found)} pairs of the expected race (status {status}).")
    if newest:
        print(f"DeepSpeed {NEWEST_RELEASE}, gradients from two streams: {len(newest)} pairs.")
    elif newest_status == 0:
        print(f"DeepSpeed {NEWEST_RELEASE}, gradients from two streams: every pair is ordered.")
    print(
        "\nOn a machine with GPUs, the same without --vgpu:\n"
        f"  streamguard run -- torchrun --nproc_per_node 2 {SCRIPT}\n"
        f"  STREAMGUARD=1 torchrun --nproc_per_node 2 {SCRIPT}"
    )
    if status != 66 or not found:
        print(f"\nThe expected race was not found: status {status}, expected 66.", file=sys.stderr)
        return 1
    if newest_status != (66 if newest else 0):
        print(f"\nThe second run ended with {newest_status}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
