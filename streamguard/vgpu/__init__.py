"""The virtual GPU: CUDA, NCCL and NVML for machines without a GPU.

Importing this package loads nothing; `streamguard.vgpu.load` puts the libraries in place.
"""

from __future__ import annotations

from importlib import import_module

_HOMES = {
    "Description": "streamguard.vgpu.description",
    "describe": "streamguard.vgpu.description",
}

__all__ = ["Description", "describe"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
