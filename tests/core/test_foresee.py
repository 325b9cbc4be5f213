"""What an op would reveal is said before it is issued, and only then."""

from __future__ import annotations

import random

from streamguard._core import AccessKind, Engine, Race, StreamKind
from tests.core.test_findings import Run, access
from tests.seeds import first_seed

_READ, _WRITE = AccessKind.READ, AccessKind.WRITE


def facts(races: list[Race]) -> list[tuple[object, ...]]:
    """What makes a race, without what only an issued op has."""
    return [
        (race.kind, race.domain, race.first.op, race.second.stream, race.overlap) for race in races
    ]


def test_foreseen_race_is_the_one_that_the_launch_reports() -> None:
    """The launch that was asked about reports just what was foreseen."""
    run = Run()
    run.write(run.a, 0, 64)

    foreseen = run.engine.foresee_launch(run.thread, run.b, [access(32, 64, _READ)], 2)
    untold = run.engine.has_races
    run.read(run.b, 32, 64)

    assert len(foreseen) == 1
    assert not untold
    assert facts(foreseen) == facts(run.engine.take_races())


def test_asking_twice_changes_nothing() -> None:
    """A question leaves no access behind: two that nobody acts on race with nothing."""
    run = Run()
    for stream in (run.a, run.b):
        assert run.engine.foresee_launch(run.thread, stream, [access(0, 64, _WRITE)], 1) == []


def test_wait_that_is_put_in_leaves_nothing_to_foresee() -> None:
    """After a record on the other stream and a wait, the same question has no answer."""
    run = Run()
    run.write(run.a, 0, 64)
    run.wait(run.b, run.a)

    assert run.engine.foresee_launch(run.thread, run.b, [access(0, 64, _WRITE)], 1) == []


def test_host_access_is_foreseen_until_the_host_has_waited() -> None:
    """The host races with the device until it waits for the stream."""
    run = Run()
    run.write(run.a, 0, 64)

    before = run.engine.foresee_host_access(run.thread, [access(0, 8, _READ)], 3)
    run.engine.sync_stream(run.thread, run.a)
    after = run.engine.foresee_host_access(run.thread, [access(0, 8, _READ)], 3)

    assert ([race.first.stream for race in before], after) == ([run.a], [])


def test_collectives_of_one_communicator_foresee_no_race_among_themselves() -> None:
    """Two of one communicator run in issue order (HB-09); of two communicators they do not."""
    run = Run()
    accesses = [access(0, 64, _WRITE)]
    run.engine.collective(run.thread, run.a, 5, accesses, 1)

    other = run.engine.foresee_collective(run.thread, run.b, 6, accesses, 1)
    same = run.engine.foresee_collective(run.thread, run.b, 5, accesses, 1)

    assert (len(other), len(same)) == (1, 0)


def test_foresight_equals_the_launch_on_random_programs() -> None:
    """On 300 random programs each launch reports what was foreseen right before it."""
    seed = first_seed()
    rng = random.Random(seed)
    total = 0
    for _ in range(300):
        total += _foresee_one(rng)

    assert total > 300


def _foresee_one(rng: random.Random) -> int:
    engine = Engine()
    thread = engine.add_host_thread()
    kinds = [StreamKind.LEGACY, StreamKind.BLOCKING, StreamKind.NONBLOCKING, StreamKind.NONBLOCKING]
    streams = [engine.add_stream(0, kind) for kind in kinds]
    found = 0
    for _ in range(40):
        stream = rng.choice(streams)
        event = rng.randrange(3)
        match rng.randrange(6):
            case 0:
                engine.record_event(thread, event, stream)
            case 1:
                engine.wait_event(thread, stream, event)
            case 2 if rng.random() < 0.3:
                engine.sync_stream(thread, stream)
            case _:
                accesses = [
                    (
                        16 * rng.randrange(4),
                        8,
                        rng.choice([8, 24]),
                        2,
                        rng.choice([_READ, _WRITE]),
                        0,
                    )
                    for _ in range(rng.randrange(1, 4))
                ]
                foreseen = engine.foresee_launch(thread, stream, accesses, 1)
                engine.launch(thread, stream, accesses, 1)
                reported = engine.take_races()
                assert facts(foreseen) == facts(reported)
                found += len(reported)
    return found
