"""The reducer that streamguard ships: ZeRO-1 and ZeRO-2 gradients, ordered under every schedule.

It never imports the detector. Importing this package does not load torch; the names do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamguard.zero.hand_over import Edge as Edge
    from streamguard.zero.hand_over import HandOver as HandOver
    from streamguard.zero.loss_scale import LossScale as LossScale
    from streamguard.zero.optimizer import ZeroOptimizer as ZeroOptimizer
    from streamguard.zero.reducer import GradientReducer as GradientReducer

_HOMES = {
    "Edge": "streamguard.zero.hand_over",
    "GradientReducer": "streamguard.zero.reducer",
    "HandOver": "streamguard.zero.hand_over",
    "LossScale": "streamguard.zero.loss_scale",
    "ZeroOptimizer": "streamguard.zero.optimizer",
}

__all__ = ["Edge", "GradientReducer", "HandOver", "LossScale", "ZeroOptimizer"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
