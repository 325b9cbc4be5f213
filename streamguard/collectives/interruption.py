"""Where this process's threads are, and how its main thread is got out of a collective."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
import traceback

from streamguard.collectives.exchange import Store
from streamguard.errors import DesyncError

_FRAMES = 12


def stack_lines() -> list[str]:
    """Where all Python threads are; the main thread first, innermost frame first."""
    frames = sys._current_frames()
    main = threading.main_thread().ident
    lines: list[str] = []
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sorted(frames.items(), key=lambda item: item[0] != main):
        name = names.get(ident, "")
        if name == "streamguard-watch":
            continue
        if ident != main:
            lines.append(f"thread {name or ident}:")
        summary = traceback.extract_stack(frame)[::-1][: _FRAMES if ident == main else 4]
        lines += [f"{f.filename}:{f.lineno} in {f.name}" for f in summary]
    return lines


def raise_in_main_thread(message: str) -> None:
    """Raise `DesyncError` in the main thread, and abort all groups so that it comes back to Python.

    The error is pending before the groups are aborted: it comes first where the abort itself makes
    the waiting call raise later.
    """

    class RaisedError(DesyncError):
        # Python makes the object itself, from a class and no argument.
        def __init__(self) -> None:
            super().__init__(message)

    RaisedError.__name__ = RaisedError.__qualname__ = DesyncError.__name__
    RaisedError.__module__ = DesyncError.__module__
    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(RaisedError))
    _abort_groups()


def _abort_groups() -> None:
    from torch.distributed import distributed_c10d

    for group in list(distributed_c10d._world.pg_map):
        try:
            group.abort()
        except (RuntimeError, NotImplementedError, AttributeError):
            continue  # a backend that cannot be aborted; its own time-out ends the wait


def meet(store: Store, key: str, count: int, *, limit_s: float) -> None:
    """Wait until `count` ranks have come here, for `limit_s` at most or while the Store lives."""
    deadline = time.monotonic() + limit_s
    with contextlib.suppress(Exception):  # torch's DistError, or what a closed socket raises
        store.add(key, 1)
        while store.add(key, 0) < count and time.monotonic() < deadline:
            time.sleep(0.02)
