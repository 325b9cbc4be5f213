"""Finds which NVIDIA libraries torch's libraries are linked against, and for which symbols."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from elf import ElfFile, Import

_NVIDIA = re.compile(r"lib(cu|nv|nccl)\w*\.so(\.\d+)*")
# Prefix of a library's functions where it is not the library's own name.
_PREFIXES = {"nvshmem_host": ("nvshmem",), "cudart": ("cuda", "__cuda"), "cuda": ("cu",)}


@dataclass(slots=True)
class Library:
    """One library to replace: symbols it must have, by version node ("" for none)."""

    soname: str
    symbols: dict[str, set[str]] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """`cublas` of `libcublas.so.13`."""
        return self.soname.split(".so")[0].removeprefix("lib")

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What the names of its functions begin with."""
        return _PREFIXES.get(self.stem, (self.stem,))

    def names(self) -> set[str]:
        """All symbols, whatever their version."""
        return set().union(*self.symbols.values()) if self.symbols else set()


def _owner(symbol: Import, libraries: dict[str, Library]) -> Library | None:
    if symbol.library:
        return libraries.get(symbol.library)
    lowered = symbol.name.lower()
    candidates = [
        (len(prefix), library)
        for library in libraries.values()
        for prefix in library.prefixes
        if lowered.startswith(prefix.lower())
    ]
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def find_libraries(torch_lib_dir: Path) -> dict[str, Library]:
    """The NVIDIA libraries that torch needs, by soname.

    Raises:
        ValueError: torch's libraries need no CUDA runtime: it is a build for CPU.
    """
    files = [ElfFile(path) for path in sorted(torch_lib_dir.glob("lib*.so"))]
    sonames = {name for file in files for name in file.needed()}
    imports = [symbol for file in files for symbol in file.imports()]
    # Loaded by a library that does not link them (cuSOLVER) shows only in symbol versions.
    sonames |= {symbol.library for symbol in imports if symbol.library}
    libraries = {name: Library(name) for name in sonames if _NVIDIA.fullmatch(name)}
    if not any(library.stem == "cudart" for library in libraries.values()):
        raise ValueError(f"the torch libraries in {torch_lib_dir} are not a CUDA build")
    for symbol in imports:
        owner = _owner(symbol, libraries)
        if owner is not None and _looks_like_nvidia(symbol.name, owner):
            owner.symbols.setdefault(symbol.version, set()).add(symbol.name)
    return libraries


def _looks_like_nvidia(name: str, owner: Library) -> bool:
    # C++ names of torch itself and libc's functions match no prefix; keep versioned ones.
    return not name.startswith("_Z") and name.lower().startswith(
        tuple(prefix.lower() for prefix in owner.prefixes)
    )
