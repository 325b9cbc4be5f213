"""Counts Triton's launches: they go to the driver, where nothing else of ours hears them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from types import ModuleType

from streamguard import _hooks
from streamguard.import_hooks import after_import
from streamguard.patching import Method, Undo, wrap_method

# Kernels of the program, and those that inductor made: each module's class that launches.
_LAUNCHERS = (
    ("triton.runtime.jit", "JITFunction"),
    ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner"),
)
_launches: Counter[str] = Counter()


def launches() -> dict[str, int]:
    """Return how often each Triton kernel was launched while somebody watched."""
    return dict(_launches)


def triton_patches() -> list[Undo]:
    """Patch what launches, once it is imported; return the undo of each."""
    undo: list[Undo] = []
    for module_name, class_name in _LAUNCHERS:
        undo.append(after_import(module_name, _patching(class_name, undo)))
    return undo


def _patching(class_name: str, undo: list[Undo]) -> Callable[[ModuleType], None]:
    def patch(module: ModuleType) -> None:
        undo.append(wrap_method(getattr(module, class_name), "run", _counting))

    return patch


def _counting(original: Method) -> Method:
    @functools.wraps(original)
    def run(self: object, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        if not options.get("warmup") and _hooks.is_active():
            kernel = getattr(self, "fn", self)
            _launches[str(getattr(kernel, "__name__", "unnamed"))] += 1
        return result

    return run
