"""NCCL's profiler plugin: hears calls that reach NCCL around the preloaded library."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

LIBRARY = Path(__file__).parent / "lib" / "libstreamguard_nccl.so"
VARIABLE = "NCCL_PROFILER_PLUGIN"

_DEFAULT = "libnccl-profiler.so"  # what NCCL loads where the variable is not set
_LONGEST_PATH = 254  # NCCL cuts what is longer
_LOADER_CACHE = Path("/etc/ld.so.cache")
_SYSTEM_FILE = Path("/etc/nccl.conf")


def with_plugin(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which NCCL loads the plugin, unless it would load another one."""
    path = str(LIBRARY)
    if not LIBRARY.is_file() or len(os.fsencode(path)) > _LONGEST_PATH or other_plugin(environ):
        return dict(environ)
    return {**environ, VARIABLE: path}


def other_plugin(environ: Mapping[str, str]) -> str:
    """Return what else NCCL would take its profiler plugin from; "" for nothing.

    A plugin inside a network plugin's library (NCCL_NET_PLUGIN) is not looked for.

    Source: NCCL user guide, "Environment variables": the variable goes before the files, and a
    user's file before the system's.
    """
    value = environ.get(VARIABLE, "")
    if value == str(LIBRARY):
        return ""
    if value:
        return value
    named = environ.get("NCCL_CONF_FILE", "")
    home = environ.get("HOME", "")
    for file in (
        Path(named) if named else Path(home, ".nccl.conf") if home else None,
        _SYSTEM_FILE,
    ):
        if file is not None and (value := _value_in(file)):
            return f"{value} ({file})"
    return _default_library(environ)


def uncounted(environ: Mapping[str, str], *, is_loaded: bool) -> str:
    """Return why calls around the preloaded library are not counted; "" where they are."""
    if is_loaded:
        return ""
    other = other_plugin(environ)
    if other:
        return f"NCCL's profiler plugin is {other}"
    return "NCCL did not load the profiler plugin (2.28 and later do)"


def coverage() -> tuple[bool, str, dict[str, int]]:
    """Say what was heard of NCCL's calls that no op of torch.distributed made.

    Returns:
        Whether NCCL has loaded the plugin, why not if it uses another one, and how often each
        function was called. Nothing is known where collectives are not recorded.
    """
    native = sys.modules.get("streamguard._collectives")
    heard = None if native is None else native.unrecorded_nccl_calls()
    if heard is None:
        return False, "", {}
    counts, _, is_loaded = heard
    return is_loaded, "" if is_loaded else other_plugin(os.environ), counts


def _value_in(file: Path) -> str:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, separator, value = line.partition("=")
        if separator and name == VARIABLE:
            return value
    return ""


def _default_library(environ: Mapping[str, str]) -> str:
    for directory in environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":"):
        if directory and Path(directory, _DEFAULT).is_file():
            return str(Path(directory, _DEFAULT))
    try:
        is_known = f"{_DEFAULT}\0".encode() in _LOADER_CACHE.read_bytes()
    except OSError:
        return ""
    return _DEFAULT if is_known else ""
