"""Event lines that declare streams and blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamguard import _core
from streamguard.litmus.errors import StatementError
from streamguard.litmus.namespace import Block
from streamguard.litmus.statement import (
    Statement,
    parse_device,
    parse_name,
    parse_number,
    parse_option,
    parse_region,
)

if TYPE_CHECKING:
    from streamguard.litmus.program import Program

_STREAM_KINDS = {
    "blocking": _core.StreamKind.BLOCKING,
    "nonblocking": _core.StreamKind.NONBLOCKING,
    "legacy": _core.StreamKind.LEGACY,
}


def _stream_create(program: Program, statement: Statement, _thread: int) -> None:
    name, kind, *options = statement.words
    parse_name(name, statement.line, "a stream")
    if kind not in _STREAM_KINDS:
        raise StatementError(
            statement.line, f"stream kind {kind!r}; expected {', '.join(_STREAM_KINDS)}"
        )
    device = 0
    if options:
        device = parse_device(parse_option(options[0], "device", statement.line), statement.line)
    program.streams.declare(name, _STREAM_KINDS[kind], device, statement.line)


def _stream_alias(program: Program, statement: Statement, _thread: int) -> None:
    name, other = (parse_name(word, statement.line, "a stream") for word in statement.words)
    program.streams.alias(name, other, statement.line)


def _allocate(
    program: Program, statement: Statement, thread: int, kind: _core.MemoryKind, owner: int | None
) -> None:
    line = statement.line
    name = parse_name(statement.words[0], line, "a block")
    program.memory.check_new(name, line)
    size = parse_number(statement.words[1], line, "the size")
    options = statement.words[2 if owner is None else 3 :]
    reuse = parse_option(options[0], "reuse", line) if options else None
    begin, arena_end = program.memory.place(size, reuse, line)
    allocation = program.engine.allocate(thread, begin, begin + size, kind, owner)
    program.memory.add_block(Block(name, allocation, begin, begin + size, arena_end))


def _alloc(program: Program, statement: Statement, thread: int) -> None:
    owner = program.named_stream(statement.words[2], statement)
    _allocate(program, statement, thread, _core.MemoryKind.DEVICE, owner)


def _alloc_pinned(program: Program, statement: Statement, thread: int) -> None:
    _allocate(program, statement, thread, _core.MemoryKind.PINNED, None)


def _alloc_pageable(program: Program, statement: Statement, thread: int) -> None:
    _allocate(program, statement, thread, _core.MemoryKind.PAGEABLE, None)


def _view(program: Program, statement: Statement, _thread: int) -> None:
    name = parse_name(statement.words[0], statement.line, "a view")
    program.memory.check_new(name, statement.line)
    region = parse_region(statement.words[1], statement.line)
    program.memory.add_view(name, region, statement.line)


def _record_stream(program: Program, statement: Statement, _thread: int) -> None:
    block = program.memory.block(statement.words[0], statement.line)
    stream = program.stream_outside(statement.words[1], statement)
    program.engine.record_stream(block.allocation, stream)


def _freed_block(program: Program, statement: Statement) -> Block:
    block = program.memory.block(statement.words[0], statement.line)
    if block.is_freed:
        raise StatementError(statement.line, f"{block.name!r} is freed already")
    block.is_freed = True
    return block


def _free(program: Program, statement: Statement, thread: int) -> None:
    block = _freed_block(program, statement)
    program.engine.free(thread, block.allocation, program.labels.number(statement.label))


def _free_sync(program: Program, statement: Statement, thread: int) -> None:
    block = _freed_block(program, statement)
    label = program.labels.number(statement.label)
    program.engine.free_synchronously(thread, block.allocation, label)


VERBS: dict[str, Callable[[Program, Statement, int], None]] = {
    "stream_create": _stream_create,
    "stream_alias": _stream_alias,
    "alloc": _alloc,
    "alloc_pinned": _alloc_pinned,
    "alloc_pageable": _alloc_pageable,
    "view": _view,
    "record_stream": _record_stream,
    "free": _free,
    "free_sync": _free_sync,
}
