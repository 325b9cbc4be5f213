"""Generates sources that depend on the installed torch and CUDA headers.

`errors`: the table of error names. `stubs`: for every NVIDIA library that torch needs the
functions that no source here implements, and `manifest.json` that says how to link each library.
A new torch or CUDA release needs a new run and no edit.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import headers
import stub_source
from elf import ElfFile
from requirements import Library, find_libraries

_HERE = Path(__file__).resolve().parent
_NOT_SUPPORTED = 801  # cudaErrorNotSupported and CUDA_ERROR_NOT_SUPPORTED
_NCCL_INVALID_USAGE = 5
# Implemented by sources of csrc/vgpu/runtime; sonames where torch only opens them by name.
_IMPLEMENTED = {"cudart": "", "cuda": "libcuda.so.1", "nccl": "", "nvidia-ml": "libnvidia-ml.so.1"}


def _definitions(objects: Path) -> set[str]:
    return {name for file in objects.rglob("*.o") for name in ElfFile(file).definitions()}


def _missing(library: Library, defined: set[str], include_dirs: list[Path]) -> str:
    """Source with the functions of an implemented library that its sources lack."""
    if library.stem == "cudart":
        wanted = library.names() | headers.runtime_functions(include_dirs)
        return stub_source.refusing_stubs(wanted - defined, status=_NOT_SUPPORTED)
    if library.stem == "cuda":
        wanted = library.names() | headers.driver_functions(include_dirs)
        return stub_source.refusing_stubs(wanted - defined, status=_NOT_SUPPORTED)
    if library.stem == "nccl":
        wanted = library.names()
        return stub_source.refusing_stubs(wanted - defined, status=_NCCL_INVALID_USAGE)
    return ""


def _special_source(library: Library) -> Path | None:
    path = _HERE / "special" / f"{library.stem}.c"
    return path if path.is_file() else None


def _special_names(source: Path | None) -> set[str]:
    """Functions a hand-written source defines: one per line that begins with `int NAME(`."""
    if source is None:
        return set()
    lines = source.read_text().splitlines()
    starts = [line.split("(")[0].split() for line in lines if line[:1].isalpha() and "(" in line]
    return {words[-1].lstrip("*") for words in starts}


def generate_stubs(torch_lib: Path, objects: Path, out: Path, include_dirs: list[Path]) -> None:
    """Writes a source and a version script per library, and the manifest."""
    libraries = find_libraries(torch_lib)
    for stem, soname in _IMPLEMENTED.items():
        if soname and not any(library.stem == stem for library in libraries.values()):
            libraries[soname] = Library(soname)
    manifest = []
    for library in sorted(libraries.values(), key=lambda library: library.soname):
        implemented = library.stem in _IMPLEMENTED
        special = None if implemented else _special_source(library)
        if implemented:
            defined = _definitions(objects / library.stem)
            source = _missing(library, defined, include_dirs)
        else:
            source = stub_source.stubs(library.stem, library.names() - _special_names(special))
        node = library.soname if library.soname in library.symbols else ""
        (out / f"{library.soname}.c").write_text(source)
        (out / f"{library.soname}.map").write_text(
            stub_source.version_script(library.symbols, default_node=node)
        )
        manifest.append(
            {
                "soname": library.soname,
                "stem": library.stem,
                "implemented": implemented,
                "special": str(special) if special else "",
            }
        )
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1))


def generate_errors(out: Path, include_dirs: list[Path]) -> None:
    """Writes the rows of errors.cc's table."""
    rows = (f'    {{{name}, "{name}"}},\n' for name, _ in headers.error_names(include_dirs))
    (out / "error_names.inc").write_text("".join(rows))


def main() -> None:
    """Entry point; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["errors", "stubs"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--include", type=Path, action="append", required=True)
    parser.add_argument("--torch-lib", type=Path)
    parser.add_argument("--objects", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "errors":
        generate_errors(arguments.out, arguments.include)
        return
    if arguments.torch_lib is None or arguments.objects is None:
        parser.error("stubs needs --torch-lib and --objects")
    generate_stubs(arguments.torch_lib, arguments.objects, arguments.out, arguments.include)


if __name__ == "__main__":
    main()
