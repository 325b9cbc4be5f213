"""Builds the small extension and computes what its kernels would: it runs without nvcc.

`python extension_kernels.py FOLDER` builds it there, importable as `amp_C`; a program imports this
file for the host twins.
"""

from __future__ import annotations

import ctypes
import subprocess
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pybind11

import streamguard.vgpu

SOURCE = Path(__file__).with_name("multi_tensor_extension.cc")


def build(folder: Path, *names: str) -> None:
    """Compile the extension into `folder`, once for all the names that it is imported by."""
    library = folder / f"{names[0]}{EXTENSION_SUFFIXES[0]}"
    headers = [f"-I{path}" for path in (pybind11.get_include(), sysconfig.get_path("include"))]
    command = ["g++", "-std=c++17", "-shared", "-fPIC", *headers, str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True)
    for name in names[1:]:
        (folder / f"{name}{EXTENSION_SUFFIXES[0]}").hardlink_to(library)


def _floats(address: int, size: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))


@streamguard.vgpu.kernel("adam_kernel")
def adam(
    grid: object, block: object, gradient: ctypes.c_void_p, parameter: ctypes.c_void_p,
    first: ctypes.c_void_p, second: ctypes.c_void_p, size: ctypes.c_long, lr: ctypes.c_float,
    beta1: ctypes.c_float, beta2: ctypes.c_float, epsilon: ctypes.c_float, step: ctypes.c_int,
    decouples: ctypes.c_int, corrects: ctypes.c_int, decay: ctypes.c_float,
) -> None:  # fmt: skip
    """Adam's step on one tensor of float32, with weight decay as in AdamW where it `decouples`."""
    g, p, m, v = (_floats(at, size) for at in (gradient, parameter, first, second))
    g = g if decouples else g + decay * p
    m += (1 - beta1) * (g - m)
    v += (1 - beta2) * (g * g - v)
    mean, square = (m / (1 - beta1**step), v / (1 - beta2**step)) if corrects else (m, v)
    p -= lr * (mean / (np.sqrt(square) + epsilon) + (decay * p if decouples else 0))


@streamguard.vgpu.kernel("scale_kernel")
def scale(
    grid: object, block: object, source: ctypes.c_void_p, target: ctypes.c_void_p,
    size: ctypes.c_long, factor: ctypes.c_float,
) -> None:  # fmt: skip
    """Target is source times factor."""
    _floats(target, size)[:] = _floats(source, size) * factor


@streamguard.vgpu.kernel("norm_kernel")
def norm(
    grid: object, block: object, source: ctypes.c_void_p, size: ctypes.c_long,
    target: ctypes.c_void_p,
) -> None:  # fmt: skip
    """Target is the Euclidean norm of source."""
    _floats(target, 1)[0] = np.sqrt(np.square(_floats(source, size)).sum())


@streamguard.vgpu.kernel("other_kernel")
def other(grid: object, block: object, source: ctypes.c_void_p) -> None:
    """Does nothing."""
