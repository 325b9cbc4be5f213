"""Find a real race of DeepSpeed without a GPU, and one that the newest release still has.

`make demo` runs this. Both runs are unmodified DeepSpeed under torchrun with two ranks and
ProcessGroupNCCL, on two virtual GPUs. The exit status is 0 only if the expected pair was found.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / ".demo"
BIN = Path(sys.executable).parent
STREAMGUARD = str(BIN / "streamguard")
SCRIPT = "examples/train_zero2.py"
RACES = 66  # exit status of `streamguard run`


@dataclass(frozen=True)
class Run:
    """One watched training run: what was started, how it ended, where its records lie."""

    title: str
    shown_command: str
    status: int
    output: Path

    def races(self) -> list[dict[str, object]]:
        command = [STREAMGUARD, "show", "--json", str(self.output)]
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        records = [json.loads(line) for line in lines]
        return [record for record in records if record["type"] == "race"]

    def print_report(self) -> None:
        print(f"\n=== {self.title}\n    {self.shown_command}\n", flush=True)
        subprocess.run([STREAMGUARD, "show", str(self.output)], cwd=ROOT, stderr=sys.stdout)


def run_watched(name: str, release: str, title: str, *arguments: str) -> Run:
    """Run the training script under one DeepSpeed release; its output goes to a log file."""
    output = OUTPUT / name
    shutil.rmtree(output, ignore_errors=True)
    output.parent.mkdir(exist_ok=True)
    # torch deprecates what DeepSpeed imports; that is not what this demo is about
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore::FutureWarning"}
    environment = {**os.environ, **quiet}
    folder = ROOT / ".deepspeed" / release
    if folder.exists():  # the newest release is in .venv itself
        environment["PYTHONPATH"] = str(folder)
    options = ["--vgpu", "2", "--output", str(output), "--accesses", "ipg_buffer[*]"]
    # --standalone: torchrun picks a free port
    program = ["torchrun", "--standalone", "--nproc_per_node", "2", SCRIPT, *arguments]
    command = [STREAMGUARD, "run", *options, "--", str(BIN / program[0]), *program[1:]]
    log = OUTPUT / f"{name}.log"
    print(f"[demo] DeepSpeed {release}, two ranks on two virtual GPUs …", end=" ", flush=True)
    begin = time.monotonic()
    with log.open("w") as file:
        status = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=file, stderr=file
        ).returncode
    print(f"status {status} after {time.monotonic() - begin:.0f} s, log in {log.relative_to(ROOT)}")
    shown = f"streamguard run --vgpu 2 --accesses 'ipg_buffer[*]' -- {' '.join(program)}"
    if folder.exists():
        shown = f"PYTHONPATH=.deepspeed/{release} {shown}"
    return Run(f"DeepSpeed {release}: {title}", shown, status, output)


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
    bad = run_watched("plain", "0.17.2", "plain ZeRO-2 with overlap_comm")
    newest = run_watched(
        "producers", "0.19.8", "gradients from two streams", "--scenario", "producers"
    )
    for run in (bad, newest):
        run.print_report()

    found = [race for race in bad.races() if is_refill_of_reducing_bucket(race)]
    open_races = newest.races()
    print("\n=== What this showed")
    print(f"{bad.title}: pairs of the reduction and the refill of its bucket: {len(found)}")
    print(
        f"{newest.title}: pairs that nothing orders: {len(open_races)}"
        if open_races
        else f"{newest.title}: every pair is ordered"
    )
    print(
        "\nThe same on a machine with GPUs, under the DeepSpeed that is installed there:\n"
        f"  streamguard run -- torchrun --nproc_per_node 2 {SCRIPT}\n"
        f"  streamguard run -- torchrun --nproc_per_node 2 {SCRIPT} --scenario producers\n"
        f"  STREAMGUARD=1 torchrun --nproc_per_node 2 {SCRIPT}"
    )
    if bad.status != RACES or not found:
        print(f"\nThe expected race was not found: status {bad.status}, expected {RACES}.")
        return 1
    if newest.status != (RACES if open_races else 0):
        print(f"\nThe second run failed with status {newest.status}: see its log.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
