"""Starts and stops watching."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from streamguard.errors import UnsupportedAllocatorError
from streamguard.hooks import native

Sink = Callable[[int], None]
Stacks = Literal["off", "leaf", "full"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which ops are looked at; order is always followed, and collectives always looked at.

    Attributes:
        every: Ops of every n-th training step, from step 0.
        streams: Patterns of stream names; where there are some, only races among such streams.
    """

    every: int = 1
    streams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Enforcing:
    """How missing waits are put in.

    Attributes:
        only: Patterns of stream names; where there are some, only waits of or for such a stream.
        is_timed: The device's event times say how long streams waited.
    """

    only: tuple[str, ...] = ()
    is_timed: bool = True


PROBES = Path(__file__).parent / "lib" / "libstreamguard_probes.so"
"""Made of csrc/cuda/probes.cu where nvcc was there; without it a host function delays."""

STACK_DEPTH: dict[Stacks, int] = {"off": 0, "leaf": 1, "full": 16}


def install(
    *,
    stacks: Stacks,
    sink: Sink,
    enforcing: Enforcing | None = None,
    sampling: Sampling | None = None,
    confirming: bool = False,
    cupti: bool = False,
) -> Callable[[], None]:
    """Watch every kernel, copy, collective, event and block of this process.

    What torch cannot take back (observers at its dispatch keys, the allocator's tracker) is
    registered once per process; undo makes it pass through, and puts the previous GPUTrace sink
    back. CUDA is not initialised. What ran before, or between two installations, is never part of a
    finding.

    Args:
        stacks: How many Python frames are kept with each op: none, the innermost, or 16.
        sink: Called with the id of each new distinct finding, on the thread whose op revealed it,
            with no lock held. What it raises is reported as unraisable and does not reach the op.
        sampling: What to look at; by default everything.
        enforcing: Put the missing waits in; by default they are only found.
        confirming: Try whether races change bytes, by delaying the stream of a pair's first op.
        cupti: Hear runtime calls through CUPTI, where no library is preloaded that tells of them.

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
    from streamguard.hooks.cupti import hear_through_cupti
    from streamguard.hooks.patches import install_patches

    check_allocator(torch.cuda.get_allocator_backend(), os.environ)
    _hooks.install_observers()
    looked_at = sampling or Sampling()
    _hooks.sample(looked_at.every, list(looked_at.streams))
    _hooks.start(STACK_DEPTH[stacks], sink)
    _act(enforcing, confirming=confirming)
    # Before CUDA is initialised there is no allocator to attach to; torch calls this right after.
    torch.cuda._lazy_call(_hooks.attach_allocator_trace)
    restore_patches = install_patches()
    let_go_of_cupti = hear_through_cupti() if cupti else None

    def undo() -> None:
        if let_go_of_cupti is not None:
            let_go_of_cupti()
        restore_patches()
        _hooks.stop()

    return undo


def begin_anew_in_child(
    enforcing: Enforcing | None, prepare: Callable[[], None], *, confirming: bool
) -> None:
    """In a forked child: watch it as if it had just started; see `Session.begin_anew_in_child`."""
    from streamguard import _hooks

    _hooks.begin_anew_in_child()
    prepare()
    _hooks.activate()
    _act(enforcing, confirming=confirming)


def _act(enforcing: Enforcing | None, *, confirming: bool) -> None:
    """Start what does more than watch."""
    from streamguard import _hooks

    if enforcing is not None:
        _hooks.enforce(list(enforcing.only), enforcing.is_timed)
    if confirming:
        _hooks.confirm(str(PROBES) if PROBES.is_file() else "")


def check_allocator(backend: str, environ: Mapping[str, str]) -> None:
    """Refuse allocators that do not tell of their blocks: every reuse would look like a race."""
    if backend != "native":
        raise UnsupportedAllocatorError(f"PYTORCH_CUDA_ALLOC_CONF=backend:{backend}")
    variable = "PYTORCH_NO_CUDA_MEMORY_CACHING"
    if variable in environ:
        raise UnsupportedAllocatorError(f"{variable}={environ[variable]}")
