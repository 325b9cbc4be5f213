"""Writes one op trace, so that a killed process leaves whole batches."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pyarrow as pa

from streamguard.trace.batches import BatchBuilder, Columns


class _Pending:
    """A file for Arrow's writer that keeps what was written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing is buffered behind this."""

    def close(self) -> None:
        """The real file is closed by its owner."""

    def content(self) -> bytes:
        return b"".join(self._parts)

    def take(self) -> bytes:
        data, self._parts = self.content(), []
        return data


class TraceFile:
    """One trace file, new and of this process alone.

    What `write` was given is with the operating system when it returns, in one piece: a killed
    process loses what was recorded since, and nothing before.

    Not thread-safe.

    Raises:
        OSError: from the constructor, `write` and `close`, when the file cannot be written. It ends
            with the last whole batch then, as far as the file system lets it.
    """

    def __init__(self, path: Path, builder: BatchBuilder) -> None:
        self.path = path
        self._builder = builder
        self._pending = _Pending()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)
        self._size = 0
        # Deltas: a dictionary that has grown is not written again as a whole.
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        self._writer = pa.ipc.new_stream(
            pa.PythonFile(self._pending, mode="w"), builder.schema, options=options
        )

    def write(self, columns: Columns) -> None:
        """Write recorded rows as one batch; without rows nothing is written."""
        if not columns["rows"] and not columns["new_texts"]:
            return
        self._writer.write_batch(self._builder.build(columns))
        crc32 = zlib.crc32(self._pending.content())
        self._writer.write_batch(self._builder.checksum(crc32))
        self._append(self._pending.take())

    def close(self) -> None:
        """Say that the trace is complete, and close the file."""
        try:
            self._writer.close()
            self._append(self._pending.take())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is: an incomplete trace."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)
