"""Runs a litmus program on the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamguard import _core
from streamguard.litmus import access_verbs, memory_verbs, order_verbs
from streamguard.litmus.case import RacePair
from streamguard.litmus.errors import StatementError
from streamguard.litmus.namespace import CoreAccess, Interned, Memory, Streams
from streamguard.litmus.statement import Statement, parse_name, parse_region

_VERBS = {**memory_verbs.VERBS, **access_verbs.VERBS, **order_verbs.VERBS}


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
        engine: One without streams, threads and ops; by default a new one.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        *,
        history: _core.History = _core.History.FULL,
        engine: _core.Engine | None = None,
    ) -> None:
        self.engine = engine or _core.Engine(history=history, one_host_clock=False)
        self.memory = Memory()
        self.streams = Streams(self.engine)
        self.labels = Interned()
        self.events = Interned()
        self.messages = Interned()
        self.communicators = Interned()
        self.graphs: dict[str, int] = {}
        self.open_graph: tuple[str, int] | None = None
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
        if self.open_graph is not None:
            name, line = self.open_graph
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

    def named_stream(self, text: str, statement: Statement) -> int:
        """Find a stream that waits or owns: a capture stream need not be part of the graph yet."""
        return self.streams.find(parse_name(text, statement.line, "a stream"))

    def stream(self, text: str, statement: Statement) -> int:
        """Find a stream that works; refuse a capture stream that the capture has not reached."""
        stream = self.named_stream(text, statement)
        if self.streams.is_capture_name(text) and not self.engine.is_capturing(stream):
            raise StatementError(
                statement.line, f"{text!r} is used before it waits for an event of the capture"
            )
        return stream

    def stream_outside(self, text: str, statement: Statement) -> int:
        """Find a stream for a call that CUDA refuses on a capturing stream."""
        stream = self.named_stream(text, statement)
        if self.engine.is_capturing(stream):
            raise StatementError(
                statement.line, f"{statement.verb!r} is not allowed on {text!r} while it captures"
            )
        return stream

    def accesses(self, text: str, kind: _core.AccessKind, line: int) -> list[CoreAccess]:
        """Read a region and return it as the engine takes it."""
        return self.memory.accesses(parse_region(text, line), kind, line)

    def event(self, text: str, line: int) -> int:
        """Return the number of a named event."""
        return self.events.number(parse_name(text, line, "an event"))

    def check(self, outcome: _core.WaitOutcome, event: str, line: int) -> None:
        """Refuse what CUDA refuses: an event that crosses the border of a capture."""
        if outcome == _core.WaitOutcome.CROSSES_CAPTURE:
            raise StatementError(
                line, f"event {event!r} is recorded and waited on different sides of a capture"
            )
