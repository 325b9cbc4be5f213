"""Runs variants and compares them with what their file expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamguard import _core
from streamguard.litmus.case import RacePair, Variant
from streamguard.litmus.errors import LitmusError, StatementError
from streamguard.litmus.program import Program


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the engine says about one variant.

    `races` and `ordered_by_nccl` are distinct and in issue order of their second access.
    """

    variant: Variant
    races: tuple[RacePair, ...]
    ordered_by_nccl: tuple[RacePair, ...]
    explanation: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`race` or `clean`."""
        return "race" if self.races else "clean"

    @property
    def missing(self) -> list[RacePair]:
        """Races that the file expects and the engine did not find."""
        return sorted((self.variant.expectation.races or frozenset()).difference(self.races))

    @property
    def unexpected(self) -> list[RacePair]:
        """Races that the engine found and the file does not expect."""
        expectation = self.variant.expectation
        if expectation.races is not None:
            return sorted(frozenset(self.races).difference(expectation.races))
        return sorted(self.races) if expectation.verdict in (None, "clean") else []

    @property
    def is_as_expected(self) -> bool:
        """Whether verdict and race set are what the file says; it says clean when it says nothing.

        A file that states only `verdict: race` is content with any race.
        """
        expected = self.variant.expectation.verdict
        has_right_verdict = expected is None or expected == self.verdict
        return has_right_verdict and not self.missing and not self.unexpected


def run_variant(variant: Variant, *, history: _core.History = _core.History.FULL) -> Outcome:
    """Run one program and say what races in it.

    Raises:
        LitmusError: a line names something that does not exist or that CUDA refuses.
    """
    try:
        program = Program(variant.statements, history=history)
        program.run()
    except StatementError as error:
        raise LitmusError(variant.source, error.line, error.reason) from error
    races = program.take_races()
    ordered = program.take_ordered_by_nccl()
    return Outcome(
        variant,
        tuple(race.pair for race in races),
        tuple(race.pair for race in ordered),
        tuple(explain(program, [race.detail for race in races])),
    )


def explain(program: Program, races: Sequence[_core.Race]) -> list[str]:
    """Say in clocks why each race is one, and what every lane knows at the end."""
    lines = [_missing_order(program, race) for race in races]
    lines += [_needed_wait(program, wait, races) for wait in _core.needed_waits(list(races))]
    lanes = {program.engine.thread_lane(number): name for name, number in program.threads.items()}
    lanes |= {program.engine.stream_lane(number): name for number, name in program.streams.named()}
    for name, number in program.threads.items():
        lines.append(_clock(f"thread {name}", program.engine.thread_clock(number), lanes))
    for number, name in program.streams.named():
        lines.append(_clock(f"stream {name}", program.engine.stream_clock(number), lanes))
    return lines


def _missing_order(program: Program, race: _core.Race) -> str:
    first = program.labels.key(race.first.label)
    second = program.labels.key(race.second.label)
    if race.kind == _core.RaceKind.UAF:
        return f"{second}: issued after {first}"
    missing = race.missing
    where = f"{_place(program, race.second)} knows {_place(program, race.first)}"
    text = (
        f"{second}: {where} up to epoch {missing.known_epoch}, "
        f"{first} is epoch {missing.needed_epoch}"
    )
    if missing.last_wait is not None:
        text += f"; last learned by {missing.last_wait.kind.name.lower().replace('_', ' ')}"
    if missing.event_after_first is not None:
        event = program.events.key(missing.event_after_first)
        name = f"event {event}" if isinstance(event, str) else "the event of a wait_stream"
        text += f"; {name} was recorded after it"
    return text


def _needed_wait(program: Program, wait: _core.NeededWait, races: Sequence[_core.Race]) -> str:
    """One of the fewest waits that order all races, between the ops that decide where it goes."""
    ordered = [races[index] for index in wait.races]
    newest = max((race.first for race in ordered), key=lambda access: access.op)
    oldest = min((race.second for race in ordered), key=lambda access: access.op)
    return (
        f"needed: {_place(program, oldest)} waits for {_place(program, newest)}, after "
        f"{program.labels.key(newest.label)}, before {program.labels.key(oldest.label)}; "
        f"orders {len(ordered)} of {len(races)}"
    )


def _place(program: Program, access: _core.AccessRecord) -> str:
    if access.on_host or access.stream is None:
        names = {number: name for name, number in program.threads.items()}
        return f"thread {names[access.thread or 0]}"
    return f"stream {program.streams.name_of(access.stream)}"


def _clock(owner: str, epochs: Sequence[int], lanes: dict[int, str]) -> str:
    known = [
        f"{lanes.get(lane, f'lane {lane}')}:{epoch}" for lane, epoch in enumerate(epochs) if epoch
    ]
    return f"{owner} knows {' '.join(known) or 'nothing'}"
