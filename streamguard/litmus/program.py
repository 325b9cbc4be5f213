"""Runs a litmus program on the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamguard import _core
from streamguard.litmus.case import RacePair
from streamguard.litmus.errors import StatementError
from streamguard.litmus.namespace import Block, CoreAccess, Interned, Memory, Streams
from streamguard.litmus.statement import (
    Statement,
    parse_name,
    parse_number,
    parse_option,
    parse_region,
)

_STREAM_KINDS = {
    "blocking": _core.StreamKind.BLOCKING,
    "nonblocking": _core.StreamKind.NONBLOCKING,
    "legacy": _core.StreamKind.LEGACY,
}
_READ = _core.AccessKind.READ
_WRITE = _core.AccessKind.WRITE


@dataclass(frozen=True, slots=True)
class FoundRace:
    """One race with the engine's own data; `pair` is what verdicts compare."""

    pair: RacePair
    detail: _core.Race


class Program:
    """One run of one program.

    Args:
        statements: The program, in issue order.
        history: Bounded is for tests of the bounded history; verdicts use the full one.
    """

    def __init__(
        self, statements: Sequence[Statement], *, history: _core.History = _core.History.FULL
    ) -> None:
        self.engine = _core.Engine(history=history, one_host_clock=False)
        self.memory = Memory()
        self.streams = Streams(self.engine)
        self.labels = Interned()
        self.events = Interned()
        self._messages = Interned()
        self._communicators = Interned()
        self._graphs: dict[str, int] = {}
        self._open_graph: tuple[str, int] | None = None
        self._statements = statements
        # Every thread exists from the start: one added later would know what all others know.
        names = dict.fromkeys(["main", *(statement.thread for statement in statements)])
        self.threads = {name: self.engine.add_host_thread() for name in names}

    def run(self) -> None:
        """Run every statement.

        Raises:
            StatementError: a statement names something that does not exist or that CUDA refuses.
        """
        for statement in self._statements:
            verb = _VERBS[statement.verb]
            verb(self, statement, self.threads[statement.thread])
        if self._open_graph is not None:
            name, line = self._open_graph
            raise StatementError(line, f"graph {name!r} is not ended")

    def take_races(self) -> list[FoundRace]:
        """Return the races since the last call, one for each distinct pair, in issue order."""
        return self._distinct(self.engine.take_races())

    def take_ordered_by_nccl(self) -> list[FoundRace]:
        """Return the pairs that only one communicator's issue order keeps apart (HB-09)."""
        return self._distinct(self.engine.take_ordered_by_nccl())

    def _distinct(self, races: Sequence[_core.Race]) -> list[FoundRace]:
        found: dict[RacePair, FoundRace] = {}
        for race in races:
            pair = RacePair(
                race.kind.name,
                race.domain.name.lower(),
                str(self.labels.key(race.first.label)),
                str(self.labels.key(race.second.label)),
            )
            found.setdefault(pair, FoundRace(pair, race))
        return list(found.values())

    # Names ----------------------------------------------------------------------------------------

    def _stream(self, text: str, statement: Statement, *, starts_work: bool = True) -> int:
        """Find a stream; refuse a capture stream that the capture has not reached."""
        name = parse_name(text, statement.line, "a stream")
        stream = self.streams.find(name)
        is_lost = self.streams.is_capture_name(name) and not self.engine.is_capturing(stream)
        if starts_work and is_lost:
            raise StatementError(
                statement.line, f"{name!r} is used before it waits for an event of the capture"
            )
        return stream

    def _stream_outside(self, text: str, statement: Statement) -> int:
        """Find a stream for a call that CUDA refuses on a capturing stream."""
        stream = self.streams.find(parse_name(text, statement.line, "a stream"))
        if self.engine.is_capturing(stream):
            raise StatementError(
                statement.line, f"{statement.verb!r} is not allowed on {text!r} while it captures"
            )
        return stream

    def _accesses(self, text: str, kind: _core.AccessKind, line: int) -> list[CoreAccess]:
        return self.memory.accesses(parse_region(text, line), kind, line)

    def _event(self, text: str, line: int) -> int:
        return self.events.number(parse_name(text, line, "an event"))

    def _check(self, outcome: _core.WaitOutcome, event: str, line: int) -> None:
        if outcome is _core.WaitOutcome.CROSSES_CAPTURE:
            raise StatementError(
                line, f"event {event!r} is recorded and waited on different sides of a capture"
            )

    # Declarations ---------------------------------------------------------------------------------

    def _stream_create(self, statement: Statement, _thread: int) -> None:
        name, kind, *options = statement.words
        parse_name(name, statement.line, "a stream")
        if kind not in _STREAM_KINDS:
            raise StatementError(
                statement.line, f"stream kind {kind!r}; expected {', '.join(_STREAM_KINDS)}"
            )
        device = 0
        if options:
            value = parse_option(options[0], "device", statement.line)
            device = self._device(value, statement.line)
        self.streams.declare(name, _STREAM_KINDS[kind], device, statement.line)

    def _device(self, text: str, line: int) -> int:
        device = parse_number(text, line, "the device")
        if device > 1023:
            raise StatementError(line, f"device {device}; expected at most 1023")
        return device

    def _stream_alias(self, statement: Statement, _thread: int) -> None:
        name, other = (parse_name(word, statement.line, "a stream") for word in statement.words)
        self.streams.alias(name, other, statement.line)

    def _allocate(
        self, statement: Statement, thread: int, kind: _core.MemoryKind, owner: int | None
    ) -> None:
        line = statement.line
        name = parse_name(statement.words[0], line, "a block")
        self.memory.check_new(name, line)
        size = parse_number(statement.words[1], line, "the size")
        options = statement.words[2 if owner is None else 3 :]
        reuse = parse_option(options[0], "reuse", line) if options else None
        begin, arena_end = self.memory.place(size, reuse, line)
        allocation = self.engine.allocate(thread, begin, begin + size, kind, owner)
        self.memory.add_block(Block(name, allocation, begin, begin + size, arena_end))

    def _alloc(self, statement: Statement, thread: int) -> None:
        owner = self._stream(statement.words[2], statement, starts_work=False)
        self._allocate(statement, thread, _core.MemoryKind.DEVICE, owner)

    def _alloc_pinned(self, statement: Statement, thread: int) -> None:
        self._allocate(statement, thread, _core.MemoryKind.PINNED, None)

    def _alloc_pageable(self, statement: Statement, thread: int) -> None:
        self._allocate(statement, thread, _core.MemoryKind.PAGEABLE, None)

    def _view(self, statement: Statement, _thread: int) -> None:
        name = parse_name(statement.words[0], statement.line, "a view")
        self.memory.check_new(name, statement.line)
        region = parse_region(statement.words[1], statement.line)
        self.memory.add_view(name, region, statement.line)

    def _record_stream(self, statement: Statement, _thread: int) -> None:
        block = self.memory.block(statement.words[0], statement.line)
        stream = self._stream_outside(statement.words[1], statement)
        self.engine.record_stream(block.allocation, stream)

    def _freed_block(self, statement: Statement) -> Block:
        block = self.memory.block(statement.words[0], statement.line)
        if block.is_freed:
            raise StatementError(statement.line, f"{block.name!r} is freed already")
        block.is_freed = True
        return block

    def _free(self, statement: Statement, thread: int) -> None:
        block = self._freed_block(statement)
        self.engine.free(thread, block.allocation, self.labels.number(statement.label))

    def _free_sync(self, statement: Statement, thread: int) -> None:
        block = self._freed_block(statement)
        label = self.labels.number(statement.label)
        self.engine.free_synchronously(thread, block.allocation, label)

    # Accesses -------------------------------------------------------------------------------------

    def _launch(self, statement: Statement, thread: int, kind: _core.AccessKind) -> None:
        accesses = self._accesses(statement.words[1], kind, statement.line)
        stream = self._stream(statement.words[0], statement)
        self.engine.launch(thread, stream, accesses, self.labels.number(statement.label))

    def _read(self, statement: Statement, thread: int) -> None:
        self._launch(statement, thread, _READ)

    def _write(self, statement: Statement, thread: int) -> None:
        # `rw` comes here too: one op's read and write of the same bytes count as one write.
        self._launch(statement, thread, _WRITE)

    def _transfer(self, statement: Statement, thread: int, mode: _core.CopyMode) -> None:
        is_sync = mode is _core.CopyMode.SYNC
        to_stream, destination, *source = statement.words
        accesses = self._accesses(destination, _WRITE, statement.line)
        for text in source:
            accesses += self._accesses(text, _READ, statement.line)
        find = self._stream_outside if is_sync else self._stream
        stream = find(to_stream, statement)
        label = self.labels.number(statement.label)
        if source:
            self.engine.copy(thread, stream, accesses, mode, label)
        else:
            self.engine.memset(thread, stream, accesses, mode, label)

    def _transfer_async(self, statement: Statement, thread: int) -> None:
        self._transfer(statement, thread, _core.CopyMode.ASYNC)

    def _transfer_sync(self, statement: Statement, thread: int) -> None:
        self._transfer(statement, thread, _core.CopyMode.SYNC)

    def _collective(self, statement: Statement, thread: int) -> None:
        accesses: list[CoreAccess] = []
        communicator = 0
        for word in statement.words[1:]:
            key, _, value = word.partition("=")
            if key == "in" and value:
                accesses += self._accesses(value, _READ, statement.line)
            elif key == "out" and value:
                accesses += self._accesses(value, _WRITE, statement.line)
            elif key == "comm" and value:
                communicator = self._communicators.number(value)
            else:
                raise StatementError(
                    statement.line, f"{word!r} is not understood; expected in=, out= or comm="
                )
        stream = self._stream(statement.words[0], statement)
        label = self.labels.number(statement.label)
        self.engine.collective(thread, stream, communicator, accesses, label)

    def _host_read(self, statement: Statement, thread: int) -> None:
        accesses = self._accesses(statement.words[0], _READ, statement.line)
        self.engine.host_access(thread, accesses, self.labels.number(statement.label))

    def _host_write(self, statement: Statement, thread: int) -> None:
        accesses = self._accesses(statement.words[0], _WRITE, statement.line)
        self.engine.host_access(thread, accesses, self.labels.number(statement.label))

    # Order ----------------------------------------------------------------------------------------

    def _record(self, statement: Statement, thread: int) -> None:
        event = self._event(statement.words[0], statement.line)
        stream = self._stream(statement.words[1], statement)
        self.engine.record_event(thread, event, stream)

    def _wait(self, statement: Statement, thread: int) -> None:
        stream = self._stream(statement.words[0], statement, starts_work=False)
        event = self._event(statement.words[1], statement.line)
        outcome = self.engine.wait_event(thread, stream, event)
        self._check(outcome, statement.words[1], statement.line)

    def _wait_stream(self, statement: Statement, thread: int) -> None:
        waiting = self._stream(statement.words[0], statement, starts_work=False)
        waited = self._stream(statement.words[1], statement)
        event = self.events.number(("wait_stream", statement.line))
        self.engine.record_event(thread, event, waited)
        outcome = self.engine.wait_event(thread, waiting, event)
        self._check(outcome, "of wait_stream", statement.line)
        self.engine.destroy_event(event)

    def _host_sync(self, statement: Statement, thread: int) -> None:
        self.engine.sync_stream(thread, self._stream_outside(statement.words[0], statement))

    def _event_sync(self, statement: Statement, thread: int) -> None:
        event = self._event(statement.words[0], statement.line)
        outcome = self.engine.sync_event(thread, event)
        self._check(outcome, statement.words[0], statement.line)

    def _device_sync(self, statement: Statement, thread: int) -> None:
        device = self._device(statement.words[0], statement.line) if statement.words else 0
        self.engine.sync_device(thread, device)

    def _event_query(self, statement: Statement, thread: int) -> None:
        name, _, answer = statement.words[0].partition("=")
        event = self._event(name, statement.line)
        if answer not in ("done", "notready"):
            raise StatementError(
                statement.line, f"{statement.words[0]!r}: expected e=done or e=notready"
            )
        if answer == "done":
            self._check(self.engine.event_completed(thread, event), name, statement.line)

    def _post(self, statement: Statement, thread: int) -> None:
        self.engine.post(thread, self._messages.number(statement.words[0]))

    def _take(self, statement: Statement, thread: int) -> None:
        self.engine.take(thread, self._messages.number(statement.words[0]))

    # Graphs ---------------------------------------------------------------------------------------

    def _graph_begin(self, statement: Statement, _thread: int) -> None:
        name = parse_name(statement.words[0], statement.line, "a graph")
        if self._open_graph is not None:
            raise StatementError(statement.line, f"graph {self._open_graph[0]!r} is not ended")
        self._open_graph = (name, statement.line)
        self.engine.begin_capture(self.streams.begin_capture())

    def _graph_end(self, statement: Statement, _thread: int) -> None:
        name = statement.words[0]
        if self._open_graph is None or self._open_graph[0] != name:
            raise StatementError(statement.line, f"graph {name!r} was not begun")
        graph = self.engine.end_capture(self.streams.end_capture())
        if graph is None:
            raise StatementError(
                statement.line, f"graph {name!r} has a forked stream that 'cap' does not wait for"
            )
        self._open_graph = None
        self._graphs[name] = graph

    def _graph_launch(self, statement: Statement, thread: int) -> None:
        name = statement.words[0]
        if name not in self._graphs:
            raise StatementError(statement.line, f"graph {name!r} was not captured")
        stream = self._stream_outside(statement.words[1], statement)
        self.engine.launch_graph(thread, self._graphs[name], stream)


_VERBS: dict[str, Callable[[Program, Statement, int], None]] = {
    "stream_create": Program._stream_create,
    "stream_alias": Program._stream_alias,
    "alloc": Program._alloc,
    "alloc_pinned": Program._alloc_pinned,
    "alloc_pageable": Program._alloc_pageable,
    "view": Program._view,
    "record_stream": Program._record_stream,
    "free": Program._free,
    "free_sync": Program._free_sync,
    "read": Program._read,
    "write": Program._write,
    "rw": Program._write,
    "copy": Program._transfer_async,
    "copy_sync": Program._transfer_sync,
    "memset": Program._transfer_async,
    "memset_sync": Program._transfer_sync,
    "collective": Program._collective,
    "record": Program._record,
    "wait": Program._wait,
    "wait_stream": Program._wait_stream,
    "graph_begin": Program._graph_begin,
    "graph_end": Program._graph_end,
    "graph_launch": Program._graph_launch,
    "hostread": Program._host_read,
    "hostwrite": Program._host_write,
    "hostsync": Program._host_sync,
    "event_sync": Program._event_sync,
    "device_sync": Program._device_sync,
    "event_query": Program._event_query,
    "post": Program._post,
    "take": Program._take,
}
