"""The virtual GPU: CUDA, NCCL and NVML for machines without a GPU.

Importing this package loads nothing; `streamguard.vgpu.load` puts the libraries in place.
"""

from __future__ import annotations

from importlib import import_module

_HOMES = {
    "Description": "streamguard.vgpu.description",
    "Difference": "streamguard.vgpu.comparison",
    "Exploration": "streamguard.vgpu.exploration",
    "describe": "streamguard.vgpu.description",
    "explore": "streamguard.vgpu.exploration",
    "kernel": "streamguard.vgpu.kernels",
    "result": "streamguard.vgpu.results",
    "start_schedule": "streamguard.vgpu.schedules",
}

__all__ = [
    "Description",
    "Difference",
    "Exploration",
    "describe",
    "explore",
    "kernel",
    "result",
    "start_schedule",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
