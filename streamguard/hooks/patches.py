"""What torch does without telling GPUTrace: completions the host learns of, CUDA graphs, others."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import torch
import torch.distributed

from streamguard import _hooks
from streamguard.hooks.custom_ops import custom_op_patches
from streamguard.hooks.extension_calls import extension_patches
from streamguard.hooks.graphs import graph_patches
from streamguard.hooks.late_operators import late_operator_patches
from streamguard.hooks.peer_memory import peer_memory_patches
from streamguard.hooks.triton_launches import triton_patches
from streamguard.patching import Method, Undo, wrap_method

# ProcessGroupNCCL reads it as a boolean: see `wait_blocks`.
BLOCKING_WAIT = "TORCH_NCCL_BLOCKING_WAIT"


def install_patches() -> Undo:
    """Replace the methods of torch whose calls nothing else tells of.

    Returns:
        Undo: restores the very functions that were replaced.
    """
    undo = [
        wrap_method(torch.cuda.Event, "query", _telling_event),
        wrap_method(torch.cuda.Stream, "query", _telling_stream),
        *graph_patches(),
        *custom_op_patches(),
        *late_operator_patches(),
    ]
    # These grow when a module is imported later.
    growing = [triton_patches(), peer_memory_patches(), extension_patches()]
    if torch.distributed.is_available():
        work = torch.distributed.Work
        group = torch.distributed.ProcessGroup
        undo += [
            wrap_method(work, "is_completed", _telling_completion),
            wrap_method(work, "wait", _telling_blocking_wait),
            wrap_method(group, "_end_coalescing", _telling_end_of_group),
        ]

    def undo_all() -> None:
        for patches in (undo, *growing):
            for restore in reversed(patches):
                restore()

    return undo_all


def _telling_event(original: Method) -> Method:
    @functools.wraps(original)
    def query(self: torch.cuda.Event) -> object:
        is_done = original(self)
        if is_done:
            _hooks.event_completed(self.cuda_event)
        return is_done

    return query


def _telling_stream(original: Method) -> Method:
    @functools.wraps(original)
    def query(self: torch.cuda.Stream) -> object:
        is_done = original(self)
        if is_done:
            _hooks.stream_completed(self.device_index, self.cuda_stream)
        return is_done

    return query


def _tell_completion(work: torch.distributed.Work) -> None:
    # An operator takes the work across: the object itself has types that only torch can unpack.
    torch.ops.streamguard.work_completed(work.boxed())


def _telling_completion(original: Method) -> Method:
    @functools.wraps(original)
    def is_completed(self: torch.distributed.Work) -> object:
        is_done = original(self)
        if is_done:
            _tell_completion(self)
        return is_done

    return is_completed


def wait_blocks(arguments: tuple[object, ...], options: dict[str, object]) -> bool:
    """Whether `Work.wait` with these arguments returns only when the collective is complete.

    ProcessGroupNCCL blocks the host when it is given a timeout or told to by its environment;
    otherwise only the current stream waits.
    """
    told_to = os.environ.get(BLOCKING_WAIT, "0").lower() in ("1", "y", "yes", "true", "on", "t")
    return told_to or bool(arguments) or bool(options)


def _telling_blocking_wait(original: Callable[..., object]) -> Method:
    @functools.wraps(original)
    def wait(self: torch.distributed.Work, *arguments: object, **options: object) -> object:
        is_done = original(self, *arguments, **options)
        if is_done and wait_blocks(arguments, options):
            _tell_completion(self)
        return is_done

    return wait


def _telling_end_of_group(original: Method) -> Method:
    @functools.wraps(original)
    def end_coalescing(self: object, *arguments: object) -> object:
        _hooks.forget_last_record()
        work = original(self, *arguments)
        # The calls inside the group have no work of their own: this one stands for all.
        if isinstance(work, torch.distributed.Work):
            torch.ops.streamguard.work_ends_at_last_record(work.boxed())
        return work

    return end_coalescing
