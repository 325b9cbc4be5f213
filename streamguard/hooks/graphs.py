"""CUDA graphs: a capture is kept as a program of its own, which each replay runs.

Captures and replays go through the class beneath `torch.cuda.CUDAGraph`, so that whatever calls
them (`torch.cuda.graph`, `make_graphed_callables`, compiled programs) is seen.
"""

from __future__ import annotations

import functools
import weakref

import torch

from streamguard import _hooks
from streamguard.patching import Method, Undo, wrap_method


class _Graph:
    """What stands for one captured graph in the engine, until its owner is gone."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        _hooks.destroy_graph(self.number)


_origins: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
_graphs: weakref.WeakKeyDictionary[object, _Graph] = weakref.WeakKeyDictionary()


def graph_patches() -> list[Undo]:
    """Patch capture, replay and reset; return the undo of each."""
    owner = torch._C._CUDAGraph
    # torch before 2.14 has no `capture_end_pre`; there `capture_end` itself ends the capture.
    end = "capture_end_pre" if hasattr(owner, "capture_end_pre") else "capture_end"
    return [
        wrap_method(owner, "capture_begin", _opening_capture),
        wrap_method(owner, end, _closing_capture),
        wrap_method(owner, "replay", _replaying),
        wrap_method(owner, "reset", _resetting),
    ]


def _opening_capture(original: Method) -> Method:
    @functools.wraps(original)
    def capture_begin(self: object, *arguments: object, **options: object) -> object:
        result = original(self, *arguments, **options)
        _origins[self] = _hooks.begin_capture()
        return result

    return capture_begin


def _closing_capture(original: Method) -> Method:
    @functools.wraps(original)
    def capture_end(self: object, *arguments: object, **options: object) -> object:
        # Before the call: it fails where the capture was invalid, and has ended it all the same.
        origin = _origins.pop(self, None)
        number = None if origin is None else _hooks.end_capture(origin)
        graph = None if number is None else _Graph(number)
        result = original(self, *arguments, **options)
        if graph is not None:
            _graphs[self] = graph
        return result

    return capture_end


def _replaying(original: Method) -> Method:
    @functools.wraps(original)
    def replay(self: object) -> object:
        graph = _graphs.get(self)
        if graph is not None:
            _hooks.order_replay(graph.number)
        result = original(self)
        # After the call, which first sets the seeds that the graph's kernels read.
        if graph is None:
            _hooks.unknown_graph_replayed()
        else:
            _hooks.replay_graph(graph.number)
        return result

    return replay


def _resetting(original: Method) -> Method:
    @functools.wraps(original)
    def reset(self: object) -> object:
        result = original(self)
        _graphs.pop(self, None)
        return result

    return reset
