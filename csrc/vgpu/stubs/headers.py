"""Reads function and error names from CUDA's public headers."""

from __future__ import annotations

import re
from pathlib import Path

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_ERROR = re.compile(r"\b(cudaSuccess|cudaError\w+)\s*=\s*(\d+)")
_RUNTIME = re.compile(r"\bcudaError_t\s+CUDARTAPI\s+(cuda\w+)\s*\(")
_DRIVER = re.compile(r"\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w+)\s*\(")
_VERSIONED = re.compile(r"#\s*define\s+(cu[A-Z]\w+)\s+(cu\w+_v\d+)\b")


def _read(include_dirs: list[Path], name: str) -> str:
    for directory in include_dirs:
        if (directory / name).is_file():
            return _COMMENT.sub("", (directory / name).read_text(errors="replace"))
    raise FileNotFoundError(f"{name} is in none of {', '.join(map(str, include_dirs))}")


def error_names(include_dirs: list[Path]) -> list[tuple[str, int]]:
    """Names and numbers of the runtime's errors, first name of a number only."""
    text = _read(include_dirs, "driver_types.h")
    by_number: dict[int, str] = {}
    for name, number in _ERROR.findall(text):
        by_number.setdefault(int(number), name)
    return [(name, number) for number, name in sorted(by_number.items())]


def runtime_functions(include_dirs: list[Path]) -> set[str]:
    """Functions of the runtime that answer with an error code."""
    return set(_RUNTIME.findall(_read(include_dirs, "cuda_runtime_api.h")))


def driver_functions(include_dirs: list[Path]) -> set[str]:
    """Exported functions of the driver, with the versioned names that macros choose."""
    text = _read(include_dirs, "cuda.h")
    return set(_DRIVER.findall(text)) | {new for _, new in _VERSIONED.findall(text)}
