"""Check streamguard on this machine's GPU, in ten minutes at most and without a download.

    python3 tools/gpu_check.py            build, run the gpu-marked tests, measure; needs a GPU
    python3 tools/gpu_check.py --virtual  the same steps on the virtual GPU: a rehearsal, no proof

Needs Python 3.11 with torch (CUDA build), g++ and nvcc of torch's CUDA release; everything else
lies in tools/wheels. Writes build/gpu-check.txt. Status: 0 passed, 1 something failed, 3 no GPU.
"""

import argparse
import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / "tools" / "wheels"
SUMMARY = ROOT / "build" / "gpu-check.txt"
NO_GPU = 3
LIMIT_S = 600
# Steps after the build must leave time for the ones behind them.
TESTS_S, STEP_S = 300, 120
PACKAGES = ["setuptools>=77.0.3", "wheel", "pybind11>=2.13", "pytest>=8.2"]


def count_gpus() -> int:
    """GPUs that the driver has, or 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def find_nvcc() -> str | None:
    return shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


class Check:
    """Runs the steps and keeps what the summary says of each."""

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus
        self.begin = time.monotonic()
        self.failed = False
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        print(f"[gpu-check {time.monotonic() - self.begin:4.0f} s] {line}", flush=True)
        self.lines.append(line)

    def run(
        self, name: str, command: list[str], limit_s: int, environ: dict[str, str] | None = None
    ) -> str:
        """Run a step; its output, also of a failed one."""
        limit_s = int(max(1, min(limit_s, LIMIT_S - (time.monotonic() - self.begin))))
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=self.environment(environ or {}), timeout=limit_s, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            self.fail(f"{name}: not done after {limit_s} s")
            output = error.output or ""
            return output if isinstance(output, str) else output.decode(errors="replace")
        if done.returncode != 0:
            self.fail(f"{name}: ended with {done.returncode}")
            self.lines += [f"    {line}" for line in done.stdout.splitlines()[-40:]]
        return done.stdout

    def environment(self, extra: dict[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
        nvcc = find_nvcc()
        if nvcc is not None and "CUDA_HOME" not in kept:
            kept["CUDA_HOME"] = str(Path(nvcc).resolve().parent.parent)
        return {**kept, "OMP_NUM_THREADS": "1", **extra}

    def fail(self, line: str) -> None:
        self.failed = True
        self.say(f"FAILED {line}")


def build(check: Check) -> Path:
    """Make an environment over the machine's torch and build in it. Returns: its Python."""
    environment = ROOT / "build" / "gpu-venv"
    python = environment / "bin" / "python"
    check.run(
        "environment",
        [sys.executable, "-m", "venv", "--clear", "--system-site-packages", str(environment)],
        STEP_S,
    )
    pip = [str(python), "-m", "pip", "install", "-q", "--no-index", "--find-links", str(WHEELS)]
    check.run("packages of tools/wheels", [*pip, *PACKAGES], 60)
    check.run("build", [*pip, "--no-build-isolation", "-e", "."], TESTS_S)
    return python


def test(check: Check, python: Path) -> None:
    """Run the gpu-marked tests and, on a GPU, the rules, whose usual run is their virtual twin."""
    which = "gpu" if check.gpus else "not gpu"
    tests = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs"]
    output = check.run("tests/gpu", [*tests, "tests/gpu", "-m", which], TESTS_S)
    check.say(f"tests/gpu: {last_line(output)}")
    rules = {"RULES_GPUS": str(check.gpus)} if check.gpus else {}
    output = check.run("tests/rules", [*tests, "tests/rules"], TESTS_S, rules)
    check.say(f"tests/rules: {last_line(output)}")


def last_line(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1].strip("= ") if lines else "no output"


def measure(check: Check, python: Path) -> None:
    """What watching adds to ops on this device."""
    virtual = {} if check.gpus else {"STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_VALUES": "0"}
    folder = {"STREAMGUARD_OUTPUT": str(ROOT / "build" / "gpu-check-bench")}
    for name, extra in (("unwatched", {}), ("watched", {"STREAMGUARD": "1", **folder})):
        output = check.run(f"bench {name}", [str(python), "bench/ops.py"], 90, {**virtual, **extra})
        times = next((line for line in output.splitlines() if line.startswith("{")), "no times")
        check.say(f"microseconds per call, {name}: {rounded(times)}")


def rounded(times: str) -> str:
    return re.sub(r"(\d+\.\d\d)\d+", r"\1", times)


def cover(check: Check, python: Path) -> None:
    """What the hooks see of a program, and what they do not."""
    command = [str(python), "-m", "streamguard.cli.main", "run"]
    command += [] if check.gpus else ["--vgpu", "1"]
    command += ["--output", str(ROOT / "build" / "gpu-check-run"), "--"]
    program = (
        "import torch\n"
        "model = torch.nn.Linear(64, 64, device='cuda')\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "for _ in range(20):\n"
        "    model(torch.ones(8, 64, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n"
        "torch.cuda.synchronize()\n"
    )
    output = check.run("coverage", [*command, str(python), "-c", program], STEP_S)
    for line in output.splitlines():
        if line.startswith(("coverage", "SUMMARY")):
            check.say(line)
    if "races=0" not in output or "status=clean" not in output:
        check.fail("coverage: a correct training loop is not reported as clean")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--virtual", action="store_true", help="rehearse without a GPU")
    arguments = parser.parse_args()
    gpus = count_gpus()
    if not gpus and not arguments.virtual:
        print(
            "gpu-check: no GPU here (no driver, or it has no device); nothing was checked.\n"
            "Rehearse the steps on the virtual GPU with: python3 tools/gpu_check.py --virtual"
        )
        return NO_GPU
    check = Check(0 if arguments.virtual else gpus)
    where = f"{gpus} GPU" if check.gpus else "the virtual GPU: a rehearsal, no proof"
    check.say(f"streamguard on {where}; Python {platform.python_version()}; nvcc {find_nvcc()}")
    python = build(check) if check.gpus else Path(sys.executable)
    if not check.failed:
        test(check, python)
        measure(check, python)
        cover(check, python)
    check.say("FAILED" if check.failed else "passed")
    SUMMARY.parent.mkdir(exist_ok=True)
    SUMMARY.write_text("\n".join(check.lines) + "\n")
    print(f"written to {SUMMARY}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
