"""Event lines that touch memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamguard import _core
from streamguard.litmus.errors import StatementError
from streamguard.litmus.namespace import CoreAccess
from streamguard.litmus.statement import Statement

if TYPE_CHECKING:
    from streamguard.litmus.program import Program

_READ = _core.AccessKind.READ
_WRITE = _core.AccessKind.WRITE


def _launch(program: Program, statement: Statement, thread: int, kind: _core.AccessKind) -> None:
    accesses = program.accesses(statement.words[1], kind, statement.line)
    stream = program.stream(statement.words[0], statement)
    program.engine.launch(thread, stream, accesses, program.labels.number(statement.label))


def _read(program: Program, statement: Statement, thread: int) -> None:
    _launch(program, statement, thread, _READ)


def _write(program: Program, statement: Statement, thread: int) -> None:
    # `rw` comes here too: one op's read and write of the same bytes count as one write.
    _launch(program, statement, thread, _WRITE)


def _transfer(program: Program, statement: Statement, thread: int, mode: _core.CopyMode) -> None:
    is_sync = mode == _core.CopyMode.SYNC
    to_stream, destination, *source = statement.words
    accesses = program.accesses(destination, _WRITE, statement.line)
    for text in source:
        accesses += program.accesses(text, _READ, statement.line)
    find = program.stream_outside if is_sync else program.stream
    stream = find(to_stream, statement)
    label = program.labels.number(statement.label)
    if source:
        program.engine.copy(thread, stream, accesses, mode, label)
    else:
        program.engine.memset(thread, stream, accesses, mode, label)


def _transfer_async(program: Program, statement: Statement, thread: int) -> None:
    _transfer(program, statement, thread, _core.CopyMode.ASYNC)


def _transfer_sync(program: Program, statement: Statement, thread: int) -> None:
    _transfer(program, statement, thread, _core.CopyMode.SYNC)


def _collective(program: Program, statement: Statement, thread: int) -> None:
    accesses: list[CoreAccess] = []
    communicator = 0
    for word in statement.words[1:]:
        key, _, value = word.partition("=")
        if key == "in" and value:
            accesses += program.accesses(value, _READ, statement.line)
        elif key == "out" and value:
            accesses += program.accesses(value, _WRITE, statement.line)
        elif key == "comm" and value:
            communicator = program.communicators.number(value)
        else:
            raise StatementError(
                statement.line, f"{word!r} is not understood; expected in=, out= or comm="
            )
    stream = program.stream(statement.words[0], statement)
    label = program.labels.number(statement.label)
    program.engine.collective(thread, stream, communicator, accesses, label)


def _host_read(program: Program, statement: Statement, thread: int) -> None:
    accesses = program.accesses(statement.words[0], _READ, statement.line)
    program.engine.host_access(thread, accesses, program.labels.number(statement.label))


def _host_write(program: Program, statement: Statement, thread: int) -> None:
    accesses = program.accesses(statement.words[0], _WRITE, statement.line)
    program.engine.host_access(thread, accesses, program.labels.number(statement.label))


VERBS: dict[str, Callable[[Program, Statement, int], None]] = {
    "read": _read,
    "write": _write,
    "rw": _write,
    "copy": _transfer_async,
    "copy_sync": _transfer_sync,
    "memset": _transfer_async,
    "memset_sync": _transfer_sync,
    "collective": _collective,
    "hostread": _host_read,
    "hostwrite": _host_write,
}
