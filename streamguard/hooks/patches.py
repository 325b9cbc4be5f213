"""What torch does without telling GPUTrace: successful queries, and the capture of graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from streamguard import _hooks

Undo = Callable[[], None]


def install_patches() -> Undo:
    """Replace four methods of torch.cuda.

    Returns:
        Undo: restores the very functions that were replaced.
    """
    undo = [
        _replace(torch.cuda.Event, "query", _telling_event),
        _replace(torch.cuda.Stream, "query", _telling_stream),
        _replace(torch.cuda.CUDAGraph, "capture_begin", _opening_capture),
        _replace(torch.cuda.CUDAGraph, "capture_end", _closing_capture),
    ]

    def undo_all() -> None:
        for restore in reversed(undo):
            restore()

    return undo_all


def _replace(owner: type, name: str, wrap: Callable[[Callable[..., object]], object]) -> Undo:
    original = vars(owner)[name]
    replacement = wrap(original)
    setattr(owner, name, replacement)

    def restore() -> None:
        if vars(owner).get(name) is replacement:
            setattr(owner, name, original)

    return restore


def _telling_event(original: Callable[..., object]) -> object:
    @functools.wraps(original)
    def query(self: torch.cuda.Event) -> object:
        is_done = original(self)
        if is_done:
            _hooks.event_completed(self.cuda_event)
        return is_done

    return query


def _telling_stream(original: Callable[..., object]) -> object:
    @functools.wraps(original)
    def query(self: torch.cuda.Stream) -> object:
        is_done = original(self)
        if is_done:
            _hooks.stream_completed(self.device_index, self.cuda_stream)
        return is_done

    return query


def _opening_capture(original: Callable[..., object]) -> object:
    @functools.wraps(original)
    def capture_begin(self: object, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        _hooks.begin_capture()
        return result

    return capture_begin


def _closing_capture(original: Callable[..., object]) -> object:
    @functools.wraps(original)
    def capture_end(self: object, *arguments: object, **options: object) -> object:
        # Before the call: it fails where the capture was invalid, and has ended it all the same.
        _hooks.end_capture()
        return original(self, *arguments, **options)

    return capture_end
