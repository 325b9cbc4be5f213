"""Compiles the replacement libraries of the virtual GPU.

Needs g++ and CUDA's public headers; no CUDA toolkit, no GPU, and torch only as files on disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from streamguard.errors import StreamguardError

_ROOT = Path(__file__).resolve().parents[2]
_RUNTIME = _ROOT / "csrc" / "vgpu" / "runtime"
_STUBS = _ROOT / "csrc" / "vgpu" / "stubs"
_CXX_FLAGS = [
    "-std=c++17",
    "-O2",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-Wall",
    "-Wextra",
    "-MMD",
]
# Directory of csrc/vgpu/runtime -> library built from its sources.
_GROUPS = {".": "cudart", "driver": "cuda", "nccl": "nccl", "nvml": "nvidia-ml"}
# Sources of "." that a library outside the runtime compiles in as well.
_SHARED_SOURCES = {"nvidia-ml": ("settings.cc",)}


class BuildError(StreamguardError):
    """A step of the build failed.

    Args:
        step: What was being made.
        output: What the tool said.
    """

    def __init__(self, step: str, output: str) -> None:
        super().__init__(f"virtual GPU: {step} failed:\n{output}")
        self.step = step
        self.output = output


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the parts of one build lie."""

    out: Path
    work: Path
    torch_lib: Path
    include_dirs: tuple[Path, ...]

    @property
    def include_flags(self) -> list[str]:
        flags = [f"-I{self.work / 'generated'}"]
        for directory in self.include_dirs:
            flags += ["-isystem", str(directory)]
        return flags


def build(out_dir: Path, torch_dir: Path, include_dirs: Sequence[Path]) -> list[Path]:
    """Make every replacement library that is missing or older than what it is made from.

    Args:
        out_dir: Receives one file per library, named by soname.
        torch_dir: The installed `torch` package; its libraries say what is needed.
        include_dirs: Directories with `cuda_runtime_api.h` and `cuda.h` of torch's CUDA version.

    Returns:
        The libraries, in an order in which they can be loaded.

    Raises:
        BuildError: g++ is missing, a header is missing, torch is a CPU build, or a source does
            not compile; the message holds the tool's output.
    """
    if shutil.which(_compiler()) is None:
        raise BuildError("looking for the C++ compiler", f"{_compiler()} is not installed")
    layout = _Layout(
        out=Path(out_dir).resolve(),
        work=_ROOT / "build" / "vgpu",
        torch_lib=Path(torch_dir).resolve() / "lib",
        include_dirs=tuple(Path(directory).resolve() for directory in include_dirs),
    )
    layout.out.mkdir(parents=True, exist_ok=True)
    (layout.work / "generated").mkdir(parents=True, exist_ok=True)
    with (layout.work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another build would replace files under this one
        generator_time = _newest(_STUBS.rglob("*.*"))
        _generate_errors(layout, generator_time)
        objects = _compile_all(layout)
        manifest = _generate_stubs(layout, objects, generator_time)
        return _link_all(layout, objects, manifest)


def _compiler() -> str:
    return os.environ.get("CXX", "g++")


def _newest(paths: Iterable[Path]) -> float:
    return max((path.stat().st_mtime for path in paths if path.is_file()), default=0.0)


def _is_current(target: Path, inputs_time: float) -> bool:
    return target.is_file() and target.stat().st_mtime >= inputs_time


def _run(step: str, command: Sequence[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(step, result.stdout + result.stderr)
    if result.stderr.strip():
        print(result.stderr, file=sys.stderr)


def _in_parallel(tasks: Sequence[Callable[[], None]]) -> None:
    jobs = int(os.environ.get("MAX_JOBS", os.cpu_count() or 1))
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        for result in [pool.submit(task) for task in tasks]:
            result.result()


def _generator(what: str, layout: _Layout, *arguments: str) -> list[str]:
    command = [sys.executable, str(_STUBS / "generate.py"), what]
    command += ["--out", str(layout.work / "generated")]
    for directory in layout.include_dirs:
        command += ["--include", str(directory)]
    return command + list(arguments)


def _generate_errors(layout: _Layout, generator_time: float) -> None:
    if not _is_current(layout.work / "generated" / "error_names.inc", generator_time):
        _run("reading error names from CUDA's headers", _generator("errors", layout))


def _compile_all(layout: _Layout) -> dict[str, list[Path]]:
    """Compile what changed; objects by library."""
    objects: dict[str, list[Path]] = {}
    tasks: list[Callable[[], None]] = []
    for directory, library in _GROUPS.items():
        sources = sorted((_RUNTIME / directory).glob("*.cc"))
        sources += [_RUNTIME / name for name in _SHARED_SOURCES.get(library, ())]
        objects[library] = []
        for source in sources:
            target = layout.work / library / f"{source.stem}.o"
            target.parent.mkdir(parents=True, exist_ok=True)
            objects[library].append(target)
            if not _is_compiled(target, source):
                tasks.append(lambda s=source, t=target: _compile(layout, s, t))  # type: ignore[misc] # defaults bind the loop variables
        for stale in set((layout.work / library).glob("*.o")) - set(objects[library]):
            stale.unlink()
    _in_parallel(tasks)
    return objects


def _is_compiled(target: Path, source: Path) -> bool:
    dependencies = target.with_suffix(".d")
    if not dependencies.is_file() or not _is_current(target, source.stat().st_mtime):
        return False
    inputs = dependencies.read_text().replace("\\\n", " ").split()[1:]
    if not all(Path(name).is_file() for name in inputs):
        return False
    return _is_current(target, _newest([Path(name) for name in inputs]))


def _compile(layout: _Layout, source: Path, target: Path) -> None:
    command = [_compiler(), *_CXX_FLAGS, *layout.include_flags, "-c", str(source)]
    _run(f"compiling {source.relative_to(_ROOT)}", [*command, "-o", str(target)])


@dataclass(frozen=True, slots=True)
class _Entry:
    soname: str
    stem: str
    special: str


def _generate_stubs(
    layout: _Layout, objects: dict[str, list[Path]], generator_time: float
) -> list[_Entry]:
    manifest = layout.work / "generated" / "manifest.json"
    inputs = [path for paths in objects.values() for path in paths]
    inputs += layout.torch_lib.glob("lib*.so")
    if not _is_current(manifest, max(generator_time, _newest(inputs))):
        arguments = ("--torch-lib", str(layout.torch_lib), "--objects", str(layout.work))
        _run("generating stubs", _generator("stubs", layout, *arguments))
    entries = json.loads(manifest.read_text())
    return [_Entry(entry["soname"], entry["stem"], entry["special"]) for entry in entries]


def _link_all(
    layout: _Layout, objects: dict[str, list[Path]], manifest: list[_Entry]
) -> list[Path]:
    # The runtime first: the driver and NCCL are linked against it.
    ordered = sorted(manifest, key=lambda entry: (entry.stem != "cudart", entry.soname))
    runtime = layout.out / ordered[0].soname
    for stale in set(layout.out.glob("lib*.so*")) - {layout.out / e.soname for e in ordered}:
        stale.unlink()
    _link(layout, ordered[0], objects["cudart"], [])
    tasks: list[Callable[[], None]] = []
    for entry in ordered[1:]:
        # Stubs name what they refuse through the runtime. NVML is used without it.
        needs_runtime = [] if entry.stem == "nvidia-ml" else [str(runtime)]
        own = objects.get(entry.stem, [])
        tasks.append(lambda e=entry, o=own, n=needs_runtime: _link(layout, e, o, n))  # type: ignore[misc] # defaults bind the loop variables
    _in_parallel(tasks)
    return [layout.out / entry.soname for entry in ordered]


def _link(layout: _Layout, entry: _Entry, objects: list[Path], libraries: list[str]) -> None:
    target = layout.out / entry.soname
    generated = layout.work / "generated"
    source, script = generated / f"{entry.soname}.c", generated / f"{entry.soname}.map"
    inputs = [source, script, *objects, *map(Path, libraries)]
    inputs += [Path(entry.special)] if entry.special else []
    if _is_current(target, _newest(inputs)):
        return
    stub = layout.work / f"{entry.soname}.stubs.o"
    command = ["gcc", "-c", "-O1", "-fPIC", "-w", str(source), "-o", str(stub)]
    _run(f"compiling stubs of {entry.soname}", command)
    parts = [str(stub), *map(str, objects)]
    if entry.special:
        special = layout.work / f"{entry.stem}.special.o"
        command = ["gcc", "-c", "-O1", "-fPIC", "-Wall", entry.special, "-o", str(special)]
        _run(f"compiling {Path(entry.special).name}", command)
        parts.append(str(special))
    # Under another name first: a running program may hold the old file mapped.
    fresh = target.with_suffix(".new")
    command = [_compiler(), "-shared", *parts, *libraries, "-o", str(fresh)]
    command += [f"-Wl,-soname,{entry.soname}", f"-Wl,--version-script={script}"]
    command += ["-Wl,-rpath,$ORIGIN", "-Wl,-z,defs", "-ldl", "-lpthread"]
    _run(f"linking {entry.soname}", command)
    fresh.replace(target)
