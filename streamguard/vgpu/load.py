"""Loads the virtual GPU into this process, in place of NVIDIA's libraries."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from pathlib import Path

from streamguard.errors import MissingBuildError, UsageError
from streamguard.vgpu import program_end, toolkit

_LIBRARIES = Path(__file__).resolve().parent / "lib"
_handles: dict[str, ctypes.CDLL] = {}


def library_dir() -> Path:
    """Directory of the built replacement libraries."""
    return _LIBRARIES


def is_loaded() -> bool:
    """Whether this process runs on the virtual GPU."""
    return bool(_handles)


def load(device_count: int) -> None:
    """Make this process see `device_count` virtual GPUs; child processes inherit the count.

    The libraries enter the global scope before torch, whose own search would otherwise find
    NVIDIA's: glibc takes a library that is loaded under the wanted soname. A second call does
    nothing.

    Args:
        device_count: Devices before CUDA_VISIBLE_DEVICES restricts them, at least 1.

    Raises:
        UsageError: torch or a CUDA runtime is loaded already, or the count is not positive.
        MissingBuildError: The libraries are not built, or one does not load.
    """
    if _handles:
        return
    if device_count < 1:
        raise UsageError(f"STREAMGUARD_VGPU={device_count}: give the number of devices, 1 or more")
    if "torch" in sys.modules:
        raise UsageError(
            "torch is imported already, with NVIDIA's libraries; the virtual GPU must be loaded "
            "before it: set STREAMGUARD_VGPU in the environment"
        )
    paths = _in_load_order()
    foreign = _loaded_elsewhere({path.name for path in paths})
    if foreign:
        raise UsageError(
            f"{foreign} is loaded already; the virtual GPU must be loaded before any CUDA library"
        )
    os.environ["STREAMGUARD_VGPU"] = str(device_count)
    for path in paths:
        try:
            _handles[path.name] = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            _handles.clear()
            raise MissingBuildError(path.name, str(error)) from error
    toolkit.provide()
    atexit.register(program_end.finish)


def check_built() -> None:
    """Refuse early, before a program is started that needs the libraries.

    Raises:
        MissingBuildError: The libraries are not built.
    """
    _in_load_order()


def _in_load_order() -> list[Path]:
    # A build writes `.new` files beside the libraries before it puts them in place.
    libraries = sorted(p for p in _LIBRARIES.glob("lib*.so*") if p.suffix != ".new")
    runtimes = [path for path in libraries if path.name.startswith("libcudart.so")]
    if not runtimes:
        reason = f"no libcudart in {_LIBRARIES}"
        raise MissingBuildError("the virtual GPU", reason)
    # The runtime first, then the driver: the others are linked against them.
    rank = {"libcudart": 0, "libcuda": 1}
    return sorted(libraries, key=lambda path: (rank.get(path.name.split(".so")[0], 2), path.name))


def _loaded_elsewhere(sonames: set[str]) -> str:
    """Path of a mapped library that has one of the sonames and is not ours; "" if none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name in sonames and path.parent != _LIBRARIES:
            return str(path)
    return ""
