"""What a host thread knows that the engine first sees in the middle of a run (HB-02)."""

from __future__ import annotations

from streamguard._core import AccessKind, Engine, MemoryKind, RaceDomain, RaceKind, StreamKind

_BLOCK = (0, 64, 64, 1)


def written_block(threads: int) -> tuple[Engine, list[int], int]:
    """An engine with a clock per thread, its threads, and a stream that wrote a block."""
    engine = Engine(one_host_clock=False)
    known = [engine.add_host_thread() for _ in range(threads)]
    stream = engine.add_stream(0, StreamKind.NONBLOCKING)
    engine.allocate(known[0], 0, 64, MemoryKind.PINNED, None)
    engine.launch(known[0], stream, [(*_BLOCK, AccessKind.WRITE, 0)], 1)
    return engine, known, stream


def test_a_later_thread_knows_what_every_thread_knew() -> None:
    """The only thread had waited for the write: a thread that is added then may read."""
    engine, threads, stream = written_block(1)
    engine.sync_stream(threads[0], stream)
    later = engine.add_host_thread()

    engine.host_access(later, [(*_BLOCK, AccessKind.READ, 0)], 2)

    assert not engine.has_races


def test_a_later_thread_does_not_know_what_only_one_thread_knew() -> None:
    """One of two threads had waited: which of them started the third is not known."""
    engine, threads, stream = written_block(2)
    engine.sync_stream(threads[0], stream)
    later = engine.add_host_thread()

    engine.host_access(later, [(*_BLOCK, AccessKind.READ, 0)], 2)

    races = engine.take_races()
    assert len(races) == 1
    assert (races[0].kind, races[0].domain) == (RaceKind.RAW, RaceDomain.HOST)


def test_a_stream_that_is_done_orders_the_asking_thread() -> None:
    """A successful query of a stream says what waiting for it would have said (HB-04)."""
    engine, threads, stream = written_block(1)
    engine.stream_completed(threads[0], stream)

    engine.host_access(threads[0], [(*_BLOCK, AccessKind.READ, 0)], 2)

    assert not engine.has_races
