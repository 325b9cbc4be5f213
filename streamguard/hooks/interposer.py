"""The library that hears CUDA runtime and NCCL calls; it must be preloaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from streamguard.hooks.nccl_profiler import with_plugin

LIBRARY = Path(__file__).parent / "lib" / "libstreamguard_runtime.so"
VARIABLE = "LD_PRELOAD"


def preloading(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose processes preload the library, before what they preload already.

    NCCL is told to load its profiler plugin as well, which needs the preloaded library. The
    environment stays as it is where the library was not built, or where its path cannot be
    written into the variable, which separates names by spaces and colons.
    """
    path = str(LIBRARY)
    if not LIBRARY.is_file() or any(separator in path for separator in " :"):
        return dict(environ)
    others = [name for name in environ.get(VARIABLE, "").replace(" ", ":").split(":") if name]
    preloaded = {**environ, VARIABLE: ":".join([path, *(name for name in others if name != path)])}
    return with_plugin(preloaded)
