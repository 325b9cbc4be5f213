"""Reads a trace file batch by batch, and says where it is damaged."""

from __future__ import annotations

import mmap
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from streamguard.errors import TraceError
from streamguard.trace.schema import FIELDS, ONE_HOST_CLOCK_KEY, VERSION, VERSION_KEY

_CONTINUATION = b"\xff\xff\xff\xff"
_END_OF_STREAM = _CONTINUATION + bytes(4)
# Arrow's own errors, and what it lets through for lengths that no file has.
_ARROW_ERRORS = (pa.ArrowException, OSError, EOFError, ValueError, MemoryError, OverflowError)


@dataclass(frozen=True, slots=True)
class TraceBatch:
    """One whole batch whose checksum is right.

    Attributes:
        number: From 0, counting the batches with ops.
        byte: Where its first message begins in the file.
    """

    number: int
    byte: int
    rows: pa.RecordBatch


class TraceReader:
    """The batches of one file, in order.

    Args:
        path: The file.
        data: Its content, where that was read already.

    Raises:
        TraceError: from the constructor and from `batches`, when the file is no trace, is damaged,
            or was written by a newer version.
    """

    def __init__(self, path: Path, *, data: bytes | None = None) -> None:
        self._path = path
        self._data = _content(path) if data is None else data
        self._source = pa.BufferReader(pa.py_buffer(self._data))
        try:
            self._stream = pa.ipc.open_stream(self._source)
            self.one_host_clock = self._check_schema(self._stream.schema)
        except _ARROW_ERRORS as error:
            if self._reaches_end(0) and len(self._data) > 8:
                raise self._error(0, "the file ends inside its header") from None
            raise self._error(0, f"this is no op trace ({_first_line(error)})") from None
        self.end_is_missing_at: tuple[int, int] | None = None
        """Batch and byte at which the file ends in the middle, known after `batches`."""

    def batches(self) -> Iterator[TraceBatch]:
        """Every whole batch; the rest of a batch that a kill cut off is left out."""
        number = 0
        begin = 0
        while True:
            try:
                rows = self._next()
                if rows is None:
                    break
                middle = self._source.tell()
                closing = self._next()
                if closing is None:
                    raise pa.ArrowInvalid("its checksum is missing")
                rows.validate(full=True)
                closing.validate(full=True)
            except _ARROW_ERRORS as error:
                if self._is_cut_off(begin):
                    self.end_is_missing_at = (number, begin)
                    return
                raise self._error(begin, _first_line(error), number) from None
            self._check_sum(closing, begin, middle, number)
            yield TraceBatch(number, begin, rows)
            number += 1
            begin = self._source.tell()
        if self._source.tell() != len(self._data):
            raise self._error(self._source.tell(), "something follows the end of the trace")

    def _next(self) -> pa.RecordBatch | None:
        try:
            return self._stream.read_next_batch()
        except StopIteration:
            return None

    def _check_schema(self, schema: pa.Schema) -> bool:
        metadata = schema.metadata or {}
        version = metadata.get(VERSION_KEY)
        if version is None:
            raise self._error(0, "an Arrow stream, but no op trace of streamguard")
        if not version.isdigit() or int(version) > VERSION:
            raise self._error(
                0,
                f"version {version.decode(errors='replace')!r}; this version of streamguard reads "
                f"traces up to {VERSION}",
            )
        if len(set(schema.names)) != len(schema.names):
            raise self._error(0, "two columns have one name")
        for field in FIELDS:
            index = schema.get_field_index(field.name)
            if index < 0 or schema.field(index).type != field.type:
                found = "missing" if index < 0 else str(schema.field(index).type)
                raise self._error(0, f"column {field.name!r} is {found}; expected {field.type}")
        return metadata.get(ONE_HOST_CLOCK_KEY) != b"0"

    def _check_sum(self, closing: pa.RecordBatch, begin: int, middle: int, number: int) -> None:
        is_checksum = closing.num_rows == 1 and closing["verb"][0].as_py() == "checksum"
        recorded = closing["id"][0].as_py() if is_checksum else None
        if recorded != zlib.crc32(memoryview(self._data)[begin:middle]):
            raise self._error(
                begin, f"damaged: the checksum of bytes {begin} to {middle} is another", number
            )

    def _is_cut_off(self, begin: int) -> bool:
        """Whether the file ends inside the batch at `begin`, as a killed process leaves it."""
        return self._data[-8:] != _END_OF_STREAM and self._reaches_end(begin)

    def _reaches_end(self, begin: int) -> bool:
        """Whether the messages from `begin` on look right and go on behind the end of the file."""
        while begin < len(self._data):
            if not _CONTINUATION.startswith(self._data[begin : begin + 4]):
                return False
            end = _message_end(self._data, begin)
            if end is None:
                return True
            if end <= begin:
                return False
            begin = end
        return True

    def _error(self, byte: int, reason: str, batch: int | None = None) -> TraceError:
        return TraceError(str(self._path), byte, reason, batch=batch)


def _content(path: Path) -> bytes | mmap.mmap:
    try:
        # Before it is opened: that would wait for whoever writes to a pipe.
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise TraceError(str(path), 0, "no regular file")
        if status.st_size == 0:
            raise TraceError(str(path), 0, "the file is empty")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise TraceError(str(path), 0, error.strerror or str(error)) from error


def _message_end(data: bytes | mmap.mmap, begin: int) -> int | None:
    """Byte behind the message at `begin`; None when that lies behind the end of the data.

    Source:
        Apache Arrow, "Encapsulated message format": continuation, length, flatbuffer, body. The
        body's length is field 3 of the flatbuffer's table `Message`.
    """
    header = begin + 8
    if header > len(data):
        return None
    length = struct.unpack_from("<i", data, begin + 4)[0]
    if length <= 0:
        return begin if length < 0 else header
    body = header + length
    if body > len(data):
        return None
    try:
        table = header + struct.unpack_from("<I", data, header)[0]
        fields = table - struct.unpack_from("<i", data, table)[0]
        size = struct.unpack_from("<H", data, fields)[0]
        offset = struct.unpack_from("<H", data, fields + 10)[0] if size >= 12 else 0
        body_length = struct.unpack_from("<q", data, table + offset)[0] if offset else 0
    except struct.error:
        return begin
    if body_length < 0:
        return begin
    end = body + int(body_length)
    return None if end > len(data) else end


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__
