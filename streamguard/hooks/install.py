"""Starts and stops watching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

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
    """
    native.load()
    import torch
    import torch.distributed  # registers the collectives, which must exist to be observed

    from streamguard import _hooks

    _hooks.install_observers()
    _hooks.start(STACK_DEPTH[stacks], sink)
    # Before CUDA is initialised there is no allocator to attach to; torch calls this right after.
    torch.cuda._lazy_call(_hooks.attach_allocator_trace)
    return _hooks.stop
