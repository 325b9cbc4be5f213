"""Starts and stops watching."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal

from streamguard.errors import UnsupportedAllocatorError
from streamguard.hooks import native

Sink = Callable[[int], None]
Stacks = Literal["off", "leaf", "full"]

STACK_DEPTH: dict[Stacks, int] = {"off": 0, "leaf": 1, "full": 16}


def install(*, stacks: Stacks, sink: Sink) -> Callable[[], None]:
    """Watch every kernel, copy, collective, event and block of this process.

    What torch cannot take back (observers at its dispatch keys, the allocator's tracker) is
    registered once per process; undo makes it pass through, and puts the previous GPUTrace sink
    back. CUDA is not initialised. What ran before, or between two installations, is never part of a
    finding.

    Args:
        stacks: How many Python frames are kept with each op: none, the innermost, or 16.
        sink: Called with the id of each new distinct finding, on the thread whose op revealed it,
            with no lock held. What it raises is reported as unraisable and does not reach the op.

    Returns:
        Undo.

    Raises:
        MissingBuildError: the native hooks are absent or were built for another torch.
        UnsupportedTorchError: torch is a CPU build.
        UnsupportedAllocatorError: torch uses an allocator that cannot be traced.
    """
    native.load()
    import torch
    import torch.distributed  # registers the collectives, which must exist to be observed

    from streamguard import _hooks
    from streamguard.hooks.patches import install_patches

    check_allocator(torch.cuda.get_allocator_backend(), os.environ)
    _hooks.install_observers()
    _hooks.start(STACK_DEPTH[stacks], sink)
    # Before CUDA is initialised there is no allocator to attach to; torch calls this right after.
    torch.cuda._lazy_call(_hooks.attach_allocator_trace)
    restore_patches = install_patches()

    def undo() -> None:
        restore_patches()
        _hooks.stop()

    return undo


def check_allocator(backend: str, environ: Mapping[str, str]) -> None:
    """Refuse allocators that do not tell of their blocks: every reuse would look like a race."""
    if backend != "native":
        raise UnsupportedAllocatorError(f"PYTORCH_CUDA_ALLOC_CONF=backend:{backend}")
    variable = "PYTORCH_NO_CUDA_MEMORY_CACHING"
    if variable in environ:
        raise UnsupportedAllocatorError(f"{variable}={environ[variable]}")
