"""The engine against the oracle on random programs, and the bounded against the full history."""

from __future__ import annotations

from collections import defaultdict

import pytest

from streamguard import _core
from streamguard.litmus.program import Program
from streamguard.litmus.statement import Statement, parse_statement
from tests.litmus.oracle import Oracle
from tests.litmus.random_programs import random_program
from tests.seeds import first_seed

_SHORT = 2_000
_LONG = 20_000
_ALL_VERBS = {
    *("stream_create", "stream_alias", "alloc", "alloc_pinned", "alloc_pageable", "view"),
    *("record_stream", "free", "free_sync", "read", "write", "rw", "copy", "copy_sync"),
    *("memset", "memset_sync", "collective", "record", "wait", "wait_stream", "graph_begin"),
    *("graph_end", "graph_launch", "hostread", "hostwrite", "hostsync", "event_sync"),
    *("device_sync", "event_query", "post", "take"),
}


def parsed(lines: list[str]) -> list[Statement]:
    """Parse the lines of a program."""
    statements = [parse_statement(text, number) for number, text in enumerate(lines, start=1)]
    return [statement for statement in statements if statement is not None]


def check_against_oracle(seed: int) -> tuple[int, int]:
    """Compare both sets of one program; returns their sizes."""
    lines = random_program(seed)
    program = Program(parsed(lines))
    program.run()
    races = {race.pair for race in program.take_races()}
    ordered = {race.pair for race in program.take_ordered_by_nccl()}

    oracle = Oracle(lines)

    text = "\n".join(lines)
    assert races == oracle.races, f"seed {seed}\n{text}"
    assert ordered == oracle.ordered_by_nccl, f"seed {seed}\n{text}"
    return len(races), len(ordered)


def check_many(count: int) -> None:
    """Compare `count` programs and make sure that they are worth comparing."""
    start = first_seed()
    sizes = [check_against_oracle(start + index) for index in range(count)]

    racy = sum(1 for races, _ in sizes if races)
    assert count * 0.2 < racy < count * 0.98
    assert sum(ordered for _, ordered in sizes) > count * 0.01


def test_engine_agrees_with_the_oracle_on_random_programs() -> None:
    """Race sets and NCCL-ordered sets are equal on 2,000 random programs."""
    check_many(_SHORT)


@pytest.mark.long
def test_engine_agrees_with_the_oracle_on_many_random_programs() -> None:
    """Race sets and NCCL-ordered sets are equal on 20,000 random programs."""
    check_many(_LONG)


def test_random_programs_use_every_verb() -> None:
    """The generator leaves no verb of the notation out."""
    used = {statement.verb for seed in range(300) for statement in parsed(random_program(seed))}

    assert used == _ALL_VERBS


RaceKey = tuple[int, str, int, str]


def races_by_op(seed: int, history: _core.History) -> dict[RaceKey, _core.Race]:
    """Every race of one program by op and kind of both sides."""
    program = Program(parsed(random_program(seed)), history=history)
    program.run()
    races = [race for race in program.engine.take_races() if race.kind != _core.RaceKind.UAF]
    return {
        (race.first.op, race.first.kind.name, race.second.op, race.second.kind.name): race
        for race in races
    }


def check_bounded(seed: int) -> int:
    """Check what the bounded history promises on one program; returns pairs it leaves out."""
    full = races_by_op(seed, _core.History.FULL)
    bounded = races_by_op(seed, _core.History.BOUNDED)

    assert bounded.keys() <= full.keys(), f"seed {seed}: a pair that full does not have"
    newest: dict[tuple[int, str, int, str], int] = defaultdict(int)
    for race in full.values():
        side = (race.second.op, race.second.kind.name, race.first.lane, race.first.kind.name)
        newest[side] = max(newest[side], race.first.op)
    for (op, kind, _, first_kind), first_op in newest.items():
        assert (first_op, first_kind, op, kind) in bounded, f"seed {seed}: op {op} lost {first_op}"
    return len(full) - len(bounded)


def test_bounded_history_names_the_newest_access_of_each_stream_and_kind() -> None:
    """Bounded reports an op exactly when full does, with the newest access per lane and kind."""
    start = first_seed()

    left_out = sum(check_bounded(start + index) for index in range(_SHORT))

    assert left_out > 0


@pytest.mark.long
def test_bounded_history_holds_on_many_random_programs() -> None:
    """The same on 20,000 programs."""
    start = first_seed()

    left_out = sum(check_bounded(start + index) for index in range(_LONG))

    assert left_out > 0
