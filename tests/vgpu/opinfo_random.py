"""The same random numbers on the virtual GPU and on the CPU, op by op.

The virtual GPU seeds the CPU kernel of a random op from the CUDA generator's seed and offset.
`DeviceSeeds` notes these seeds while a program runs on the device; `SeedsOnCpu` sets them while the
same program runs on the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ALL_BITS = (1 << 64) - 1


class RandomOpsMismatchError(AssertionError):
    """The CPU called another number of random ops than the device."""


class DeviceSeeds(TorchDispatchMode):
    """Notes in `found` the seed of each random op that runs on the device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_random(func):
            generator = torch.cuda.default_generators[0]
            seed = _mix(_mix(generator.initial_seed()) ^ generator.get_offset())
            result = func(*args, **(kwargs or {}))
            self.found.append(seed)
            return result
        return func(*args, **(kwargs or {}))


class SeedsOnCpu(TorchDispatchMode):
    """Seeds the CPU's generator before each random op; all seeds must be used."""

    def __init__(self, seeds: list[int]) -> None:
        super().__init__()
        self._seeds = list(reversed(seeds))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_random(func):
            if not self._seeds:
                raise RandomOpsMismatchError(f"{func} has no counterpart on the device")
            torch.default_generator.manual_seed(self._seeds.pop())
        return func(*args, **(kwargs or {}))

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        super().__exit__(kind, error, traceback)
        if kind is None and self._seeds:
            raise RandomOpsMismatchError(f"the device called {len(self._seeds)} more random ops")


def _is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _mix(state: int) -> int:
    """SplitMix64's output function (Steele, Lea and Flood 2014, figure 16)."""
    state = (state + 0x9E3779B97F4A7C15) & _ALL_BITS
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _ALL_BITS
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _ALL_BITS
    return state ^ (state >> 31)
