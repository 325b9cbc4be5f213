"""Set up .venv and build streamguard in it; `make demo` and `make test` call this first.

    python3 tools/bootstrap.py [--deepspeed VERSION ...] [--tools] [--frameworks]

Steps whose result is still current are skipped. Only the standard library is used. Everything
that a step prints goes to .venv/setup-log.txt; when a step fails its end is shown.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOG = VENV / "setup-log.txt"
TORCH = "2.14.1"
SILENT_FOR_S = 20  # between two lines of a long step
NEWEST_DEEPSPEED = "0.19.8"
# Releases before this one need pydantic 1, which then lies beside them and nowhere else.
FIRST_WITH_PYDANTIC_2 = (0, 11)

# Without the NVIDIA libraries that torch depends on: the virtual GPU replaces them.
PACKAGES_OF_TORCH = ["pip", "install", "--no-deps", f"torch=={TORCH}"]


class StepError(Exception):
    """A step failed; the text says what is missing and what to do."""


def check_machine() -> None:
    """Refuse early, with the name of the Debian package that is missing."""
    if sys.version_info[:2] != (3, 11):
        raise StepError(
            f"Python {sys.version.split()[0]} runs this; expected 3.11, which the torch wheel and "
            "the frame walker need. Call make with PYTHON=/path/to/python3.11"
        )
    for program, package in (("g++", "g++"), ("gcc", "gcc"), ("nm", "binutils")):
        if shutil.which(program) is None:
            raise StepError(f"{program} is missing: apt-get install {package}")
    if not (Path(sys.base_prefix) / "include" / "python3.11" / "Python.h").exists():
        raise StepError("Python.h is missing: apt-get install python3-dev")
    try:
        import ensurepip  # noqa: F401
    except ImportError as error:
        raise StepError("ensurepip is missing: apt-get install python3-venv") from error


def run_logged(command: list[str], *, environment: dict[str, str] | None = None) -> None:
    with LOG.open("a") as log:
        log.write(f"\n$ {' '.join(command)}\n")
        log.flush()
        begin = log.tell()
        with subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
        ) as process:
            while process.poll() is None:
                try:
                    process.wait(SILENT_FOR_S)
                except subprocess.TimeoutExpired:
                    print(f"[setup]        {progress_since(begin)}", flush=True)
    if process.returncode != 0:
        tail = "\n".join(LOG.read_text(errors="replace").splitlines()[-25:])
        raise StepError(f"{' '.join(command[:8])} … ended with {process.returncode}:\n{tail}")


def progress_since(begin: int) -> str:
    """What the log has gained: the number of compiled files, else its last line."""
    with LOG.open("rb") as log:
        log.seek(begin)
        lines = log.read().decode(errors="replace").splitlines()
    compiled = sum(" -c " in line for line in lines)
    if compiled:
        return f"{compiled} files compiled so far"
    if lines and " -shared " in lines[-1]:
        return "linking"
    return lines[-1].strip()[:90] if lines else "still running"


def pip(*arguments: str, environment: dict[str, str] | None = None) -> None:
    run_logged([str(PYTHON), "-m", *arguments], environment=environment)


class Steps:
    """Runs the steps that are not current, one progress line each."""

    def __init__(self) -> None:
        self.begin = time.monotonic()

    def run(self, name: str, stamp: Path | None, key: str, action: Callable[[], None]) -> None:
        """Run `action` unless `stamp` holds the hash of `key`; no stamp means always."""
        digest = hashlib.sha256(key.encode()).hexdigest()
        if stamp and stamp.exists() and stamp.read_text() == digest:
            return
        print(f"[setup {time.monotonic() - self.begin:4.0f} s] {name} …", flush=True)
        action()
        if stamp:
            stamp.write_text(digest)


def create_environment() -> None:
    try:
        if VENV.exists():
            shutil.rmtree(VENV)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    except subprocess.CalledProcessError as error:
        raise StepError("python -m venv failed: apt-get install python3-venv") from error


def install_packages(extras: str) -> None:
    pip("pip", "install", "setuptools>=77.0.3", "wheel", "pybind11>=2.13")
    pip(*PACKAGES_OF_TORCH)
    # The headers must be there before the build, so the extras come before the package itself.
    names = subprocess.run(
        [str(PYTHON), "tools/requirements_of.py", *extras.split(",")],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    pip("pip", "install", *[name for name in names if name])


def install_frameworks() -> None:
    """Install the trainers; torch is there, and what it depends on must stay away."""
    depends_on_torch = ("accelerate", "pytorch-lightning", "torchmetrics")
    printed = subprocess.run(
        [str(PYTHON), "tools/requirements_of.py", "frameworks"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    names = [name for name in printed if name]
    pip("pip", "install", *[n for n in names if not n.startswith(depends_on_torch)])
    pip("pip", "install", "--no-deps", *[n for n in names if n.startswith(depends_on_torch)])


def install_streamguard() -> None:
    pip("pip", "install", "--no-deps", "--no-build-isolation", "-e", ".")


def build_extensions() -> None:
    run_logged([str(PYTHON), "setup.py", "build_ext", "--inplace"])


def install_deepspeed(version: str) -> None:
    """Install one release: the newest into .venv, others into .deepspeed/VERSION."""
    where = [] if version == NEWEST_DEEPSPEED else ["--target", f".deepspeed/{version}"]
    if where:
        shutil.rmtree(ROOT / ".deepspeed" / version, ignore_errors=True)
    # setup.py of DeepSpeed imports torch to pre-build operators, which needs CUDA libraries.
    hidden = {"DS_BUILD_OPS": "0", "PYTHONPATH": "tools/without_torch"}
    command = ["pip", "install", "--no-deps", "--no-build-isolation", *where]
    pip(*command, f"deepspeed=={version}", environment=hidden)
    if where and tuple(map(int, version.split(".")[:2])) < FIRST_WITH_PYDANTIC_2:
        pip("pip", "install", "--no-deps", *where, "pydantic<2")


def set_up(deepspeed: list[str], *, tools: bool, frameworks: bool) -> None:
    check_machine()
    steps = Steps()
    definition = (ROOT / "pyproject.toml").read_text() + (ROOT / "setup.py").read_text()
    extras = "vgpu,deepspeed,test" + (",dev" if tools else "")
    if not PYTHON.exists():
        steps.run("creating .venv", None, "", create_environment)
    packages = VENV / f"packages-{extras.replace(',', '-')}.stamp"
    steps.run(
        f"packages and torch {TORCH} (1.4 GB, without NVIDIA's libraries)",
        packages,
        TORCH + definition,
        lambda: install_packages(extras),
    )
    if not (VENV / "streamguard.stamp").exists():
        steps.run("compiling streamguard (minutes the first time)", None, "", build_extensions)
    else:
        steps.run("compiling what changed", None, "", build_extensions)
    listed = (ROOT / "streamguard_autostart.pth").read_text()
    steps.run(
        "installing streamguard into .venv",
        VENV / "streamguard.stamp",
        definition + listed,
        install_streamguard,
    )
    if frameworks:
        steps.run(
            "transformers, accelerate and Lightning",
            VENV / "frameworks.stamp",
            definition,
            install_frameworks,
        )
    for version in deepspeed:
        folder = VENV if version == NEWEST_DEEPSPEED else ROOT / ".deepspeed"
        folder.mkdir(exist_ok=True)
        steps.run(
            f"DeepSpeed {version}",
            folder / f"deepspeed-{version}.stamp",
            version,
            lambda version=version: install_deepspeed(version),
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deepspeed", nargs="*", default=[], metavar="VERSION")
    parser.add_argument("--tools", action="store_true", help="also ruff, mypy, clang-format")
    parser.add_argument(
        "--frameworks", action="store_true", help="also the trainers that are tested"
    )
    arguments = parser.parse_args()
    try:
        set_up(arguments.deepspeed, tools=arguments.tools, frameworks=arguments.frameworks)
    except StepError as error:
        print(f"[setup] {error}\n[setup] the whole log: {LOG.relative_to(ROOT)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
