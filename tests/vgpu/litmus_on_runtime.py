"""Runs a litmus program through CUDA's C interface, and says what each of its ops saw.

`read`, `write` and `rw` are host functions on their streams, copies and fills the runtime's own.
Each op hashes what it reads and what it is about to overwrite; what it writes is a function of that
hash. So the outcome names for every op the writes it came after. A cell of a program is 8 bytes.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence

from streamguard.litmus.statement import RegionText, Statement, parse_region
from tests.vgpu import raw_cuda as cuda

CELL_BYTES = 8
_FLAGS = {"blocking": cuda.BLOCKING, "nonblocking": cuda.NON_BLOCKING}


class _Block:
    def __init__(self, address: int, cells: int) -> None:
        self.address = address
        self.cells = cells
        self.recorded: list[str] = []  # streams named by record_stream
        self.events: list[ctypes.c_void_p] = []  # left on them by free


class Run:
    """One run of one program; `digest` afterwards is its outcome."""

    def __init__(self) -> None:
        self._streams: dict[str, tuple[ctypes.c_void_p, int]] = {}
        self._events: dict[str, ctypes.c_void_p] = {}
        self._blocks: dict[str, _Block] = {}
        self._owners: dict[str, str] = {}
        self._seen: list[bytes] = []

    def run(self, program: Sequence[Statement]) -> None:
        """Issue every statement, then wait for both devices."""
        for statement in program:
            getattr(self, f"_do_{statement.verb}")(statement)
        for device in (0, 1):
            cuda.ok("cudaSetDevice", device)
            cuda.device_sync()

    def digest(self) -> str:
        """What all ops saw and what the memory holds."""
        total = hashlib.blake2b(digest_size=12)
        for seen in self._seen:
            total.update(seen)
        for block in self._blocks.values():
            total.update(ctypes.string_at(block.address, block.cells * CELL_BYTES))
        return total.hexdigest()

    # Streams and events ---------------------------------------------------------------------------

    def _stream(self, name: str) -> ctypes.c_void_p:
        """The handle, on whose device the next call is made."""
        if name not in self._streams:
            self._create(name, "legacy" if name == "s0" else "nonblocking", 0)
        handle, device = self._streams[name]
        cuda.ok("cudaSetDevice", device)
        return handle

    def _create(self, name: str, kind: str, device: int) -> None:
        cuda.ok("cudaSetDevice", device)
        legacy = ctypes.c_void_p(cuda.LEGACY)
        handle = legacy if kind == "legacy" else cuda.new_stream(_FLAGS[kind])
        self._streams[name] = handle, device

    def _do_stream_create(self, statement: Statement) -> None:
        name, kind, *device = statement.words
        self._create(name, kind, int(device[0].partition("=")[2]) if device else 0)

    def _event(self, name: str) -> ctypes.c_void_p:
        if name not in self._events:
            cuda.ok("cudaSetDevice", int(name[1]))  # e<device>_<number>
            self._events[name] = cuda.new_event()
        return self._events[name]

    def _do_record(self, statement: Statement) -> None:
        event, stream = statement.words
        cuda.record(self._event(event), self._stream(stream))

    def _do_wait(self, statement: Statement) -> None:
        stream, event = statement.words
        cuda.wait(self._stream(stream), self._event(event))

    def _do_wait_stream(self, statement: Statement) -> None:
        waiting, other = statement.words
        event = self._fresh_record(other)
        cuda.wait(self._stream(waiting), event)

    def _fresh_record(self, stream: str) -> ctypes.c_void_p:
        handle = self._stream(stream)
        event = cuda.new_event()
        cuda.record(event, handle)
        return event

    def _do_hostsync(self, statement: Statement) -> None:
        cuda.sync(self._stream(statement.words[0]))

    def _do_event_sync(self, statement: Statement) -> None:
        cuda.ok("cudaEventSynchronize", self._event(statement.words[0]))

    def _do_device_sync(self, statement: Statement) -> None:
        cuda.ok("cudaSetDevice", int(statement.words[0]))
        cuda.device_sync()

    # Memory ---------------------------------------------------------------------------------------

    def _do_alloc(self, statement: Statement) -> None:
        self._stream(statement.words[2])
        self._allocate(statement, statement.words[3:], cuda.device_memory)
        self._owners[statement.words[0]] = statement.words[2]

    def _do_alloc_pinned(self, statement: Statement) -> None:
        self._allocate(statement, statement.words[2:], cuda.pinned_memory)

    def _do_alloc_pageable(self, statement: Statement) -> None:
        def pageable(size_bytes: int) -> ctypes.c_void_p:
            buffer = (ctypes.c_char * size_bytes)()
            kept.append(buffer)
            return ctypes.c_void_p(ctypes.addressof(buffer))

        kept = cuda._kept
        self._allocate(statement, statement.words[2:], pageable)

    def _allocate(
        self,
        statement: Statement,
        reuse: Sequence[str],
        new: Callable[[int], ctypes.c_void_p],
    ) -> None:
        name, cells = statement.words[0], int(statement.words[1])
        if reuse:
            old_name, _, offset = reuse[0].partition("=")[2].partition("+")
            old = self._blocks.pop(old_name)
            for event in old.events:  # as a caching allocator does before it gives a block out
                cuda.ok("cudaEventSynchronize", event)
            address = old.address + int(offset or 0) * CELL_BYTES
        else:
            address = int(new(cells * CELL_BYTES).value or 0)
            # Different everywhere: a copy of equal bytes would leave no trace.
            first = hashlib.shake_128(name.encode()).digest(cells * CELL_BYTES)
            ctypes.memmove(address, first, len(first))
        self._blocks[name] = _Block(address, cells)

    def _do_record_stream(self, statement: Statement) -> None:
        block, stream = statement.words
        self._blocks[block].recorded.append(stream)

    def _do_free(self, statement: Statement) -> None:
        name = statement.words[0]
        block = self._blocks[name]
        for stream in dict.fromkeys(block.recorded):
            if stream != self._owners[name]:
                block.events.append(self._fresh_record(stream))

    # Accesses -------------------------------------------------------------------------------------

    def _bytes_of(self, text: str) -> list[tuple[int, int]]:
        """Address and size of each run of a region."""
        region: RegionText = parse_region(text, 0)
        block = self._blocks[region.name]
        begin, end = region.begin or 0, block.cells if region.end is None else region.end
        pitch = region.pitch or end - begin
        width = region.width or end - begin
        return [
            (block.address + at * CELL_BYTES, min(width, end - at) * CELL_BYTES)
            for at in range(begin, end, pitch or 1)
        ]

    def _op(self, runs: list[tuple[int, int]], *, writes: bool) -> Callable[[], None]:
        """An op that sees what its bytes hold, and may overwrite them with a function of that."""
        number = len(self._seen)
        self._seen.append(b"not run")

        def body() -> None:
            seen = hashlib.blake2b(number.to_bytes(4, "little"), digest_size=CELL_BYTES)
            for address, size_bytes in runs:
                seen.update(ctypes.string_at(address, size_bytes))
            self._seen[number] = seen.digest()
            if not writes:
                return
            for run, (address, size_bytes) in enumerate(runs):
                written = hashlib.shake_128(seen.digest() + bytes([run])).digest(size_bytes)
                ctypes.memmove(address, written, size_bytes)

        return body

    def _access(self, statement: Statement, *, writes: bool) -> None:
        stream, region = statement.words
        body = self._op(self._bytes_of(region), writes=writes)
        cuda.host_call(self._stream(stream), body)

    def _do_read(self, statement: Statement) -> None:
        self._access(statement, writes=False)

    def _do_write(self, statement: Statement) -> None:
        self._access(statement, writes=True)

    def _do_rw(self, statement: Statement) -> None:
        self._access(statement, writes=True)

    def _do_hostread(self, statement: Statement) -> None:
        self._op(self._bytes_of(statement.words[0]), writes=False)()

    def _do_hostwrite(self, statement: Statement) -> None:
        self._op(self._bytes_of(statement.words[0]), writes=True)()

    def _target(self, stream: ctypes.c_void_p, region: str) -> tuple[ctypes.c_void_p, int]:
        """A contiguous run that the runtime is about to overwrite; an op before it looks at it."""
        ((address, size_bytes),) = self._bytes_of(region)
        cuda.host_call(stream, self._op([(address, size_bytes)], writes=False))
        return ctypes.c_void_p(address), size_bytes

    def _do_copy(self, statement: Statement) -> None:
        name, target, source = statement.words
        stream = self._stream(name)
        to, size_bytes = self._target(stream, target)
        cuda.copy(to, self._start(source), size_bytes, stream)

    def _do_copy_sync(self, statement: Statement) -> None:
        name, target, source = statement.words
        to, size_bytes = self._target(self._stream(name), target)
        cuda.copy_blocking(to, self._start(source), size_bytes)

    def _start(self, region: str) -> ctypes.c_void_p:
        ((address, _),) = self._bytes_of(region)
        return ctypes.c_void_p(address)

    def _do_memset(self, statement: Statement) -> None:
        name, target = statement.words
        stream = self._stream(name)
        to, size_bytes = self._target(stream, target)
        cuda.fill(to, len(self._seen) % 255 + 1, size_bytes, stream)

    def _do_memset_sync(self, statement: Statement) -> None:
        name, target = statement.words
        to, size_bytes = self._target(self._stream(name), target)
        value = len(self._seen) % 255 + 1
        cuda.ok("cudaMemset", to, value, ctypes.c_size_t(size_bytes))
