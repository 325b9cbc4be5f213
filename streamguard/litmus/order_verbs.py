"""Event lines that order: events, host waits, messages, graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamguard.litmus.errors import StatementError
from streamguard.litmus.statement import Statement, parse_device, parse_name

if TYPE_CHECKING:
    from streamguard.litmus.program import Program


def _record(program: Program, statement: Statement, thread: int) -> None:
    event = program.event(statement.words[0], statement.line)
    stream = program.stream(statement.words[1], statement)
    program.engine.record_event(thread, event, stream)


def _wait(program: Program, statement: Statement, thread: int) -> None:
    stream = program.named_stream(statement.words[0], statement)
    event = program.event(statement.words[1], statement.line)
    outcome = program.engine.wait_event(thread, stream, event)
    program.check(outcome, statement.words[1], statement.line)


def _wait_stream(program: Program, statement: Statement, thread: int) -> None:
    waiting = program.named_stream(statement.words[0], statement)
    waited = program.stream(statement.words[1], statement)
    event = program.events.number(("wait_stream", statement.line))
    program.engine.record_event(thread, event, waited)
    outcome = program.engine.wait_event(thread, waiting, event)
    program.check(outcome, "of wait_stream", statement.line)
    program.engine.destroy_event(event)


def _host_sync(program: Program, statement: Statement, thread: int) -> None:
    program.engine.sync_stream(thread, program.stream_outside(statement.words[0], statement))


def _event_sync(program: Program, statement: Statement, thread: int) -> None:
    event = program.event(statement.words[0], statement.line)
    outcome = program.engine.sync_event(thread, event)
    program.check(outcome, statement.words[0], statement.line)


def _device_sync(program: Program, statement: Statement, thread: int) -> None:
    device = parse_device(statement.words[0], statement.line) if statement.words else 0
    program.engine.sync_device(thread, device)


def _event_query(program: Program, statement: Statement, thread: int) -> None:
    name, _, answer = statement.words[0].partition("=")
    event = program.event(name, statement.line)
    if answer not in ("done", "notready"):
        raise StatementError(
            statement.line, f"{statement.words[0]!r}: expected e=done or e=notready"
        )
    if answer == "done":
        program.check(program.engine.event_completed(thread, event), name, statement.line)


def _post(program: Program, statement: Statement, thread: int) -> None:
    program.engine.post(thread, program.messages.number(statement.words[0]))


def _take(program: Program, statement: Statement, thread: int) -> None:
    program.engine.take(thread, program.messages.number(statement.words[0]))


def _graph_begin(program: Program, statement: Statement, _thread: int) -> None:
    name = parse_name(statement.words[0], statement.line, "a graph")
    if program.open_graph is not None:
        raise StatementError(statement.line, f"graph {program.open_graph[0]!r} is not ended")
    program.open_graph = (name, statement.line)
    program.engine.begin_capture(program.streams.begin_capture())


def _graph_end(program: Program, statement: Statement, _thread: int) -> None:
    name = statement.words[0]
    if program.open_graph is None or program.open_graph[0] != name:
        raise StatementError(statement.line, f"graph {name!r} was not begun")
    graph = program.engine.end_capture(program.streams.end_capture())
    if graph is None:
        raise StatementError(
            statement.line, f"graph {name!r} has a forked stream that 'cap' does not wait for"
        )
    program.open_graph = None
    program.graphs[name] = graph


def _graph_launch(program: Program, statement: Statement, thread: int) -> None:
    name = statement.words[0]
    if name not in program.graphs:
        raise StatementError(statement.line, f"graph {name!r} was not captured")
    stream = program.stream_outside(statement.words[1], statement)
    program.engine.launch_graph(thread, program.graphs[name], stream)


VERBS: dict[str, Callable[[Program, Statement, int], None]] = {
    "record": _record,
    "wait": _wait,
    "wait_stream": _wait_stream,
    "graph_begin": _graph_begin,
    "graph_end": _graph_end,
    "graph_launch": _graph_launch,
    "hostsync": _host_sync,
    "event_sync": _event_sync,
    "device_sync": _device_sync,
    "event_query": _event_query,
    "post": _post,
    "take": _take,
}
