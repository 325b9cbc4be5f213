"""What was found and how much was seen, as plain dictionaries.

Names, stream roles and source lines are looked up when these functions are called.
"""

from __future__ import annotations

NAMES_SHOWN = 8  # of kernels that are not observed
LAYERS = ("observer", "gputrace", "allocator", "c10d")


def finding(finding_id: int) -> dict[str, object]:
    """Return one finding.

    Raises:
        IndexError: no finding has this id.
    """
    from streamguard import _hooks

    return _hooks.finding(finding_id)


def findings() -> list[dict[str, object]]:
    """Return all distinct findings of the process, oldest first."""
    from streamguard import _hooks

    return _hooks.findings()


def watched() -> list[dict[str, object]]:
    """Return the accesses to watched regions, repeats counted, and what orders each pair."""
    from streamguard import _hooks

    return _hooks.watched()


def flush() -> None:
    """Announce findings that no op has announced yet (those made inside a driver callback)."""
    from streamguard import _hooks

    _hooks.flush()


def coverage() -> dict[str, object]:
    """Say what was seen, and what could not be.

    `launches_observed` is False: launches outside of torch's operators (extensions, Triton, raw
    CUDA calls) are seen by no layer of these, so the count of ops is never all that ran.
    """
    import torch
    import torch.distributed

    from streamguard import _hooks

    counters = _hooks.counters()
    unobserved = _hooks.unobserved_kernels()
    allocator_is_traced = _hooks.is_allocator_traced()
    truncated = counters.pop("truncated_tensors")
    replays = counters.pop("replays")
    unknown_replays = counters.pop("unknown_replays")
    limits = {
        "tensors with more than 1024 separate runs": truncated,
        "replays of graphs whose capture was not seen": unknown_replays,
    }
    opaque = {what: count for what, count in limits.items() if count}
    layers = [layer for layer in LAYERS if layer != "allocator" or allocator_is_traced]
    return {
        **counters,
        "graph_replays": replays,
        "layers": layers,
        "opaque": opaque,
        "launches_observed": False,
        "thread_handover_assumed": True,
        "unregistered_kernels": len(unobserved),
        "unregistered_kernel_names": unobserved[:NAMES_SHOWN],
        "cuda_initialised": bool(torch.cuda.is_initialized()),
        "process_group": bool(
            torch.distributed.is_available() and torch.distributed.is_initialized()
        ),
    }
