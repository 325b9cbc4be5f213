"""streamguard: finds CUDA stream and event races in PyTorch and DeepSpeed programs.

Importing this package loads neither torch nor an extension; the public names load what they need.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "Session": "streamguard.session",
    "StreamguardError": "streamguard.errors",
    "UsageError": "streamguard.errors",
    "access": "streamguard.declared",
    "findings": "streamguard.api",
    "step": "streamguard.api",
    "watch": "streamguard.api",
}

__all__ = [
    "Session",
    "StreamguardError",
    "UsageError",
    "__version__",
    "access",
    "findings",
    "step",
    "watch",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
