"""Memory that other processes or devices access too: only this process's accesses are seen."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import torch

from streamguard import _hooks
from streamguard.import_hooks import after_import
from streamguard.patching import Method, Undo

# What the coverage line calls a call of each function.
_SHARED = "tensors shared with another process, whose accesses are not seen"
_SYMMETRIC = "tensors of symmetric memory, whose accesses by peers are not seen"

_calls: Counter[str] = Counter()


def peer_memory_calls() -> dict[str, int]:
    """Return how often memory was given to or taken from others while somebody watched."""
    return dict(_calls)


def peer_memory_patches() -> list[Undo]:
    """Count such calls from now on; return the undo of each patch."""
    undo = [
        _override("_share_cuda_", is_class_method=False),
        _override("_new_shared_cuda", is_class_method=True),
    ]

    def patch(module: ModuleType) -> None:
        original = module.rendezvous
        counting = _counting(original, _SYMMETRIC)
        module.rendezvous = counting  # type: ignore[attr-defined]

        def restore() -> None:
            if module.rendezvous is counting:
                module.rendezvous = original  # type: ignore[attr-defined]

        undo.append(restore)

    undo.append(after_import("torch.distributed._symmetric_memory", patch))
    return undo


def _override(name: str, *, is_class_method: bool) -> Undo:
    """Stand in front of a method that the C++ base class defines, where it cannot be replaced."""
    storage = torch.UntypedStorage

    def call(own: object, *arguments: object) -> object:
        return getattr(super(storage, own), name)(*arguments)

    counting = _counting(call, _SHARED)
    ours = classmethod(counting) if is_class_method else counting
    setattr(storage, name, ours)

    def undo() -> None:
        if vars(storage).get(name) is ours:
            delattr(storage, name)

    return undo


def _counting(original: Callable[..., object], what: str) -> Method:
    @functools.wraps(original)
    def counted(*arguments: object, **options: object) -> object:
        if _hooks.is_active():
            _calls[what] += 1
        return original(*arguments, **options)

    return counted
