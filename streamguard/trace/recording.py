"""Records this process's trace: takes what the hooks kept and writes it to the process's file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard.identity import attempt
from streamguard.report.model import RankStart

if TYPE_CHECKING:
    from streamguard.trace.file_writer import TraceFile

# What a killed process loses at most, beside what its program was doing at that moment.
INTERVAL_S = 0.25


class Recording:
    """The trace of one process, from before its first op.

    Rows are kept in memory until it is known that the process is a rank, then written by a thread
    of ours every quarter of a second, and by the program's own thread where it makes rows faster
    than that. Nothing is lost in between. When the file cannot be written, `on_problem` is told
    once, the file ends with its last whole batch, and the program and the detector go on.

    Args:
        directory: Where the file is made.
        on_problem: Told what makes the trace incomplete, as a sentence.
    """

    def __init__(self, directory: Path, *, on_problem: Callable[[str], None]) -> None:
        self._directory = directory
        self._on_problem = on_problem
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._file: TraceFile | None = None
        self._has_failed = False
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Keep every op from now on. REQUIRES: the native hooks are loaded and saw nothing yet.

        Raises:
            ImportError: pyarrow is not installed.
        """
        import pyarrow  # noqa: F401  # fails here, before anything is recorded

        from streamguard import _hooks

        _hooks.start_recording()

    def open(self, start: RankStart) -> None:
        """Make the file; called again for the same process it does nothing."""
        if self._thread is not None or self._has_failed:
            return
        from streamguard import _hooks
        from streamguard.trace.batches import BatchBuilder
        from streamguard.trace.file_writer import TraceFile
        from streamguard.trace.schema import SUFFIX

        name = f"trace-{start.run}-rank-{start.rank}-attempt-{attempt()}-pid-{start.pid}{SUFFIX}"
        self._builder = BatchBuilder()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._file = TraceFile(self._directory / name, self._builder)
        except OSError as error:
            self._fail(error)
            return
        _hooks.set_recorder_drain(self.drain)
        self._thread = threading.Thread(
            target=self._drain_until_end, name="streamguard-trace", daemon=True
        )
        self._thread.start()

    def note(self, text: str) -> None:
        """Put a line of JSON between the ops; docs/trace_format.md lists them."""
        from streamguard import _hooks

        if not self._has_failed:
            _hooks.note(text)

    def drain(self) -> None:
        """Write what was recorded so far."""
        with self._lock:
            problem = self._write() if self._file is not None else None
        if problem is not None:
            self._fail(problem)

    def close(self) -> None:
        """Write the rest and close the file; without a file everything is discarded."""
        if os.getpid() != self._pid:
            return
        from streamguard import _hooks

        self._ending.set()
        if self._thread is not None:
            _hooks.set_recorder_drain(None)
            self._thread.join()
        self.drain()
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._fail(error)
        self._file = None
        _hooks.stop_recording()

    def _drain_until_end(self) -> None:
        while not self._ending.wait(INTERVAL_S):
            self.drain()

    def _write(self) -> OSError | None:
        """Take and write under our lock, so that batches are in the order of their ops."""
        from streamguard import _hooks

        assert self._file is not None
        columns = _hooks.take_recorded()
        self._builder.add_labels(columns["new_labels"])  # type: ignore[arg-type]  # of the .pyi
        self._builder.add_stacks(_hooks.stacks_after(self._builder.stack_count))
        try:
            self._file.write(columns)
        except OSError as error:
            self._file.abandon()
            self._file = None
            return error
        return None

    def _fail(self, error: OSError) -> None:
        from streamguard import _hooks

        self._has_failed = True
        self._ending.set()
        _hooks.set_recorder_drain(None)
        _hooks.stop_recording()
        self._on_problem(
            f"cannot write the trace to {self._directory}: {error.strerror or error}; "
            "the trace is incomplete, the findings are not affected"
        )
