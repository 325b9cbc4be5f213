"""The fewest waits that order the races of a run."""

from __future__ import annotations

import random

from streamguard._core import (
    AccessKind,
    Engine,
    History,
    MemoryKind,
    NeededWait,
    Race,
    StreamKind,
    needed_waits,
)
from tests.seeds import first_seed

_READ, _WRITE = AccessKind.READ, AccessKind.WRITE
_EVENT = 1

Launch = tuple[int, int, AccessKind]  # stream, byte, kind


def races_of(launches: list[Launch], waits: list[NeededWait] | None = None) -> list[Race]:
    """Run the launches on five streams; op ids are 1, 2, …; each wait just before its op."""
    engine = Engine(history=History.FULL)
    thread = engine.add_host_thread()
    streams = [engine.add_stream(0, StreamKind.NONBLOCKING) for _ in range(5)]
    engine.allocate(thread, 0, 64, MemoryKind.DEVICE, streams[0])
    for op, (stream, byte, kind) in enumerate(launches, start=1):
        for wait in waits or []:
            if wait.before_op == op:
                assert wait.from_stream is not None
                assert wait.to_stream is not None
                engine.record_event(thread, _EVENT, wait.from_stream)
                engine.wait_event(thread, wait.to_stream, _EVENT)
        assert engine.launch(thread, streams[stream], [(byte, 1, 1, 1, kind, 0)], 1) == op
    return engine.take_races()


def fields(wait: NeededWait) -> tuple[int | None, int | None, int, int, list[int]]:
    """A wait as a tuple."""
    return wait.from_stream, wait.to_stream, wait.after_op, wait.before_op, wait.races


def test_one_wait_orders_all_races_that_span_it() -> None:
    """Two writes, then two reads on another stream: one wait between them."""
    races = races_of([(0, 0, _WRITE), (0, 1, _WRITE), (1, 1, _READ), (1, 0, _READ)])

    assert [fields(wait) for wait in needed_waits(races)] == [(0, 1, 2, 3, [0, 1])]


def test_a_race_that_begins_after_a_wait_needs_another() -> None:
    """Write and read twice in turn: two waits; the other direction is a pair of its own."""
    launches = [(0, 0, _WRITE), (1, 0, _READ), (0, 1, _WRITE), (1, 1, _READ), (0, 0, _WRITE)]
    races = races_of(launches)

    assert [fields(wait) for wait in needed_waits(races)] == [
        (0, 1, 1, 2, [0]),
        (0, 1, 3, 4, [1]),
        (1, 0, 2, 5, [2]),
    ]


def test_a_host_access_is_waited_for_by_its_thread() -> None:
    """The host reads what a stream writes: no stream has to wait."""
    engine = Engine()
    thread = engine.add_host_thread()
    stream = engine.add_stream(0, StreamKind.NONBLOCKING)
    engine.launch(thread, stream, [(0, 1, 1, 1, _WRITE, 0)], 1)
    engine.host_access(thread, [(0, 1, 1, 1, _READ, 0)], 2)

    waits = needed_waits(engine.take_races())

    assert [fields(wait) for wait in waits] == [(stream, None, 1, 2, [0])]
    assert waits[0].thread == thread


def test_the_waits_leave_no_race() -> None:
    """A thousand random programs, run again with the waits that were found."""
    seed = first_seed()
    chance = random.Random(seed)
    kinds = (_READ, _WRITE)
    found = 0
    for _ in range(1000):
        launches = [
            (chance.randrange(5), chance.randrange(4), chance.choice(kinds)) for _ in range(20)
        ]
        races = races_of(launches)
        waits = needed_waits(races)
        found += len(races)

        assert races_of(launches, waits) == []
    assert found > 1000


def test_no_wait_repairs_a_use_after_free() -> None:
    """The free and the later access are no pair that a wait could order."""
    engine = Engine()
    thread = engine.add_host_thread()
    stream = engine.add_stream(0, StreamKind.NONBLOCKING)
    block = engine.allocate(thread, 0, 8, MemoryKind.DEVICE, stream)
    engine.free(thread, block, 1)
    engine.launch(thread, stream, [(0, 8, 8, 1, _READ, 0)], 2)
    races = engine.take_races()
    assert len(races) == 1

    assert needed_waits(races) == []
