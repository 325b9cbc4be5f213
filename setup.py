"""Builds what the installed torch and CUDA headers allow; pyproject.toml holds the metadata.

core    always: the happens-before engine, no torch and no CUDA
collectives  when torch is installed
hooks   when torch is a CUDA build (only those wheels carry c10/cuda headers)
vgpu    when CUDA runtime headers of torch's own CUDA minor version are found as well

torch is never imported here: without CUDA libraries its CUDA build cannot be.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parent.resolve()
STARTUP_FILE = "streamguard_autostart.pth"
sys.path.insert(0, str(ROOT))  # for streamguard.vgpu.build, which imports no extension


def torch_directory() -> Path | None:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or Path(spec.origin).name != "__init__.py":
        return None
    return Path(spec.origin).parent


def torch_cuda_version(torch: Path) -> str | None:
    """Return the "13.0" of a CUDA build of torch, None of a CPU build."""
    found = re.search(
        r"^cuda\b[^=]*=\s*'([\d.]+)'", (torch / "version.py").read_text(), re.MULTILINE
    )
    return found.group(1) if found else None


def header_cuda_version(include: Path) -> str | None:
    header = include / "cuda_runtime_api.h"
    found = header.exists() and re.search(r"#define CUDART_VERSION\s+(\d+)", header.read_text())
    return f"{int(found[1]) // 1000}.{int(found[1]) % 1000 // 10}" if found else None


def cuda_include_directory(torch: Path, version: str) -> Path | None:
    """Return CUDA headers of exactly torch's minor version: the wheels', then CUDA_HOME's."""
    candidates = [torch.parent / "nvidia" / f"cu{version.split('.')[0]}" / "include"]
    if os.environ.get("CUDA_HOME"):
        candidates.append(Path(os.environ["CUDA_HOME"]) / "include")
    for include in candidates:
        found = header_cuda_version(include)
        if found == version:
            return include
        if found is not None:
            print(f"streamguard: {include} is CUDA {found}, torch needs {version}: not used")
    return None


def sources(*folders: str) -> list[str]:
    return sorted(str(file) for folder in folders for file in Path("csrc", folder).glob("*.cc"))


def core_extension() -> Pybind11Extension:
    return Pybind11Extension(
        "streamguard._core",
        sources("core", "trace", "detection", "replay", "bindings"),
        include_dirs=["csrc"],
        cxx_std=17,
        extra_compile_args=["-O2", "-g0", "-Wall", "-Wextra"],
    )


def torch_extension(
    name: str, files: list[str], torch: Path, cuda: Path | None
) -> Pybind11Extension:
    """Describe an extension against torch; CUDA symbols are resolved when torch has loaded them."""
    cuda_flags = ["-isystem", str(cuda)] if cuda else []
    cuda_libraries = ["c10_cuda", "torch_cuda"] if cuda else []
    version = re.search(r"__version__ = '([^']+)'", (torch / "version.py").read_text())
    return Pybind11Extension(
        name,
        files,
        include_dirs=["csrc"],
        cxx_std=20,  # torch's headers need it
        # NDEBUG: else every RecordFunction::inputs() call fails an assertion inside torch.
        # System includes keep torch's own warnings out of our build.
        extra_compile_args=[
            "-O2", "-g0", "-DNDEBUG", "-Wall", "-Wextra", "-Wno-attributes",
            f'-DSTREAMGUARD_TORCH_VERSION="{version[1] if version else ""}"',
            "-isystem", str(torch / "include"),
            "-isystem", str(torch / "include/torch/csrc/api/include"),
            *cuda_flags,
        ],
        library_dirs=[str(torch / "lib")],
        libraries=["c10", "torch_cpu", "torch", "torch_python", *cuda_libraries],
    )  # fmt: skip


class BuildExtensions(build_ext):
    """Adds the virtual GPU's replacement libraries, and says what is left out and why."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.torch = torch_directory()
        self.cuda = None
        version = torch_cuda_version(self.torch) if self.torch else None
        if self.torch is None:
            print("streamguard: torch is not installed here: building the engine only")
        elif version is None:
            print("streamguard: torch is a CPU build: building the engine only")
        else:
            self.cuda = cuda_include_directory(self.torch, version)
            if self.cuda is None:
                print(
                    f"streamguard: no CUDA {version} headers: building the engine only. Install "
                    f"nvidia-cuda-runtime=={version}.* and nvidia-cuda-crt=={version}.*, "
                    "or set CUDA_HOME"
                )

    def run(self) -> None:
        # One place for objects, else `pip install -e` compiles everything again in a folder of
        # its own. The engine's objects are shared too: the hooks list the same sources.
        self.build_temp = str(ROOT / "build" / "objects")
        discard_foreign_objects(Path(self.build_temp), self.extensions, force=bool(self.force))
        # setuptools would compare the extension with its sources only, and miss headers, flags and
        # torch itself. `needs_compiling` decides for each object; only linking is done always.
        self.force = True
        in_place = self.inplace or getattr(self, "editable_mode", False)
        package = (ROOT if in_place else Path(self.build_lib)) / "streamguard"
        build_interposer(package / "hooks" / "lib")
        build_nccl_profiler(package / "hooks" / "lib")
        if self.torch and self.cuda:
            build_probes(package / "hooks" / "lib", torch_cuda_version(self.torch) or "")
        if self.torch and self.cuda:
            from streamguard.vgpu.build import build as build_virtual_gpu

            build_virtual_gpu(package / "vgpu" / "lib", self.torch, [self.cuda])
        super().run()


def build_interposer(directory: Path) -> None:
    """Build the library that `streamguard run` preloads."""
    build_bare_library(directory / "libstreamguard_runtime.so", "interposer")


def build_nccl_profiler(directory: Path) -> None:
    """Build NCCL's profiler plugin. It is never unloaded: its log is read when NCCL has ended."""
    build_bare_library(directory / "libstreamguard_nccl.so", "nccl_profiler", "-Wl,-z,nodelete")


def build_bare_library(library: Path, folder: str, *flags: str) -> None:
    """Build a library of one folder of csrc that needs the C library and no more.

    It is loaded into processes of every kind: no symbol but its interface may be seen there, and
    the C++ library must not come along.
    """
    headers = [
        file for part in ("interposer", "nccl_profiler") for file in Path("csrc", part).iterdir()
    ]
    newest = max(file.stat().st_mtime for file in headers)
    if library.exists() and library.stat().st_mtime > newest:
        return
    library.parent.mkdir(parents=True, exist_ok=True)
    fresh = library.with_suffix(".new")
    subprocess.run(
        [
            os.environ.get("CXX", "g++"), "-std=c++17", "-O2", "-Wall", "-Wextra", "-fPIC",
            "-shared", "-Icsrc", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
            "-fno-threadsafe-statics", "-static-libgcc", *sources(folder), "-o", str(fresh), "-ldl",
            "-Wl,--as-needed", *flags,
        ],
        check=True,
    )  # fmt: skip
    fresh.rename(library)  # a process that has it preloaded keeps the old file


def build_probes(directory: Path, cuda_version: str) -> None:
    """Build what confirm mode runs on a GPU, where an nvcc of torch's CUDA release is installed.

    Without it confirm mode delays streams by host functions.
    """
    library, source = directory / "libstreamguard_probes.so", Path("csrc/cuda/probes.cu")
    nvcc = shutil.which(str(Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"))
    nvcc = nvcc or shutil.which("nvcc")
    if nvcc is None or (library.exists() and library.stat().st_mtime > source.stat().st_mtime):
        return
    release = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    if f"release {cuda_version.split('.')[0]}." not in release:
        print(f"streamguard: nvcc is not of CUDA {cuda_version}: probes.cu is not built")
        return
    directory.mkdir(parents=True, exist_ok=True)
    fresh = library.with_suffix(".new")
    # Architectures of every GPU that this nvcc knows; the CUDA runtime is the process's own.
    command = [nvcc, "-O2", "-std=c++17", "-arch=all-major", "-cudart", "none", "-shared"]
    done = subprocess.run(
        [*command, "-Xcompiler", "-fPIC", str(source), "-o", str(fresh)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        print(f"streamguard: probes.cu is not built; nvcc said:\n{done.stdout}{done.stderr}")
        return
    fresh.rename(library)


def discard_foreign_objects(objects: Path, extensions: list[Extension], *, force: bool) -> None:
    """Throw away objects that were compiled for another torch, Python or set of flags.

    The listings that `needs_compiling` reads leave out system headers, torch's among them.
    """
    made_for = objects / "made-for.txt"
    flags = [f"{e.name} {e.extra_compile_args} {e.include_dirs}" for e in extensions]
    signature = "\n".join([sys.version, sys.prefix, *flags])
    if force or not made_for.exists() or made_for.read_text() != signature:
        shutil.rmtree(objects, ignore_errors=True)
        objects.mkdir(parents=True)
        made_for.write_text(signature)


def needs_compiling(object_file: str, source: str) -> bool:
    """Compare an object with its source and with every header that its last compile read."""
    made, listing = Path(object_file), Path(object_file).with_suffix(".d")
    if not made.exists() or not listing.exists():
        return True
    inputs = [Path(name) for name in listing.read_text().replace("\\\n", " ").split()[1:]]
    newest = max((i.stat().st_mtime if i.exists() else float("inf")) for i in inputs)
    return newest > made.stat().st_mtime


class BuildPython(build_py):
    """Puts the start-up file beside the package, where site-packages reads it."""

    def run(self) -> None:
        super().run()
        if not getattr(self, "editable_mode", False):
            shutil.copy(ROOT / STARTUP_FILE, self.build_lib)


class EditableWheel(editable_wheel):
    """The same for `pip install -e`, which does not copy what build_py copied."""

    def _run_build_commands(self, dist_name, unpacked_wheel, build_lib, tmp_dir):  # type: ignore
        result = super()._run_build_commands(dist_name, unpacked_wheel, build_lib, tmp_dir)
        shutil.copy(ROOT / STARTUP_FILE, unpacked_wheel)
        return result


def extensions() -> list[Pybind11Extension]:
    result = [core_extension()]
    torch = torch_directory()
    version = torch_cuda_version(torch) if torch else None
    cuda = cuda_include_directory(torch, version) if torch and version else None
    if torch:
        frames = [f for f in sources("hooks") if re.search(r"/(frames|sites)[_.]", f)]
        files = sources("collectives") + frames
        result.append(torch_extension("streamguard._collectives", files, torch, None))
    if torch and cuda:
        hooks = sources("core", "trace", "detection", "cupti", "hooks")
        result.append(torch_extension("streamguard._hooks", hooks, torch, cuda))
        values = sources("vgpu/values")
        result.append(torch_extension("streamguard.vgpu._values", values, torch, cuda))
    for extension in result:
        extension.extra_compile_args.append("-MMD")  # the listing needs_compiling reads
    return result


os.chdir(ROOT)
with ParallelCompile(default=os.cpu_count() or 1, needs_recompile=needs_compiling):
    setup(
        ext_modules=extensions(),
        cmdclass={
            "build_ext": BuildExtensions,
            "build_py": BuildPython,
            "editable_wheel": EditableWheel,
        },
    )
