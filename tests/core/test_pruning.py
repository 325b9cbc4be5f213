"""What the engine forgets, in counts of cells and entries."""

from __future__ import annotations

from streamguard._core import AccessKind, Engine, History, MemoryKind, StreamKind

_READ, _WRITE = AccessKind.READ, AccessKind.WRITE
_KB = 1024


def access(begin: int, size: int, kind: AccessKind) -> tuple[int, int, int, int, AccessKind, int]:
    """One plain range, looked up by address."""
    return (begin, size, size, 1, kind, 0)


class Loop:
    """An engine with one thread and two pool streams."""

    def __init__(self, *, history: History = History.BOUNDED, threads: int = 1) -> None:
        self.engine = Engine(history=history, one_host_clock=threads == 1)
        self.threads = [self.engine.add_host_thread() for _ in range(threads)]
        self.thread = self.threads[0]
        self.a = self.engine.add_stream(0, StreamKind.NONBLOCKING)
        self.b = self.engine.add_stream(0, StreamKind.NONBLOCKING)

    def allocate(self, begin: int, size: int) -> int:
        """A device block of stream a."""
        return self.engine.allocate(self.thread, begin, begin + size, MemoryKind.DEVICE, self.a)

    def write(self, begin: int, size: int) -> None:
        """One kernel on stream a."""
        self.engine.launch(self.thread, self.a, [access(begin, size, _WRITE)], 1)

    def shadow(self) -> tuple[int, int]:
        """Cells and entries."""
        counts = self.engine.counts()
        return counts["cells"], counts["entries"]


def test_bounded_keeps_one_read_and_one_write_for_each_stream() -> None:
    """A thousand launches on one region: one cell, and no more entries than after the first."""
    loop = Loop()
    loop.allocate(0, _KB)
    for _ in range(1000):
        loop.write(0, _KB)
        loop.engine.launch(loop.thread, loop.a, [access(0, _KB, _READ)], 1)

    assert loop.shadow() == (1, 2)


def test_full_keeps_every_access_that_may_still_race() -> None:
    """Until a host wait makes them known."""
    loop = Loop(history=History.FULL)
    loop.allocate(0, _KB)
    for _ in range(10):
        loop.write(0, _KB)
    assert loop.shadow() == (1, 10)

    loop.engine.sync_stream(loop.thread, loop.a)
    loop.write(0, _KB)

    assert loop.shadow() == (1, 1)


def test_a_freed_block_costs_nothing_after_its_streams_are_known_complete() -> None:
    """A free alone keeps the history; the host wait drops cells and entries."""
    loop = Loop()
    block = loop.allocate(0, _KB)
    loop.write(0, 512)
    loop.write(512, 512)
    loop.engine.free(loop.thread, block, 1)
    assert loop.shadow() == (2, 2)

    loop.engine.sync_stream(loop.thread, loop.b)
    assert loop.shadow() == (2, 2)
    loop.engine.sync_stream(loop.thread, loop.a)

    assert loop.shadow() == (0, 0)


def test_with_a_clock_per_thread_every_thread_must_know() -> None:
    """One thread's wait prunes nothing for the other."""
    loop = Loop(threads=2)
    block = loop.allocate(0, _KB)
    loop.write(0, _KB)
    loop.engine.free(loop.thread, block, 1)

    loop.engine.sync_stream(loop.threads[0], loop.a)
    assert loop.shadow() == (1, 1)
    loop.engine.sync_stream(loop.threads[1], loop.a)

    assert loop.shadow() == (0, 0)


def test_slices_of_one_buffer_grow_together_again() -> None:
    """Writing a buffer whole after writing it in 64 slices leaves one cell."""
    loop = Loop()
    loop.allocate(0, 64 * _KB)
    for index in range(64):
        loop.write(index * _KB, _KB)
    assert loop.shadow() == (64, 64)

    loop.write(0, 64 * _KB)

    assert loop.shadow() == (1, 1)


def test_host_accesses_are_not_kept_with_one_host_clock() -> None:
    """Everything issued later is after them."""
    loop = Loop()
    loop.allocate(0, _KB)

    loop.engine.host_access(loop.thread, [access(0, _KB, _WRITE)], 1)

    assert loop.shadow() == (0, 0)


def test_a_training_loop_does_not_grow() -> None:
    """Cells, entries, blocks, snapshots and lanes are the same after 600 and after 2,000 steps.

    600 steps of eight blocks fill the list of remembered freed blocks (512).
    """
    loop = Loop()
    engine = loop.engine

    def step() -> None:
        for index in range(8):
            begin = index * _KB
            block = loop.allocate(begin, _KB)
            loop.write(begin, _KB - 64 * (index % 3))
            engine.record_event(loop.thread, 100 + index, loop.a)
            engine.wait_event(loop.thread, loop.b, 100 + index)
            engine.launch(loop.thread, loop.b, [access(begin, _KB, _READ)], 1)
            engine.record_stream(block, loop.b)
            engine.free(loop.thread, block, 1)
        engine.sync_stream(loop.thread, loop.a)

    def sizes() -> dict[str, int]:
        counts = engine.counts()
        return {name: counts[name] for name in counts if name not in ("ops", "accesses")}

    for _ in range(600):
        step()
    early = sizes()
    for _ in range(1400):
        step()

    assert not engine.has_races
    assert sizes() == early


def test_forgotten_bytes_have_no_history() -> None:
    """An access that the caller knows to be complete does not race; its neighbour still does."""
    loop = Loop()
    loop.allocate(0, _KB)
    loop.write(0, _KB)

    loop.engine.forget(0, 512)
    loop.engine.launch(loop.thread, loop.b, [access(0, 512, _READ)], 2)
    assert not loop.engine.has_races
    loop.engine.launch(loop.thread, loop.b, [access(0, _KB, _READ)], 2)

    races = loop.engine.take_races()
    assert len(races) == 1
    assert races[0].second.region.width == _KB


def test_destroyed_events_give_their_clocks_back() -> None:
    """A hundred events, each recorded, waited for and destroyed, need one clock in all."""
    loop = Loop()
    for event in range(100):
        loop.engine.record_event(loop.thread, event, loop.a)
        loop.engine.wait_event(loop.thread, loop.b, event)
        loop.engine.destroy_event(event)

    loop.engine.record_event(loop.thread, 100, loop.a)

    assert loop.engine.counts()["snapshots"] == 1


def test_rows_of_one_pattern_replace_each_other() -> None:
    """A hundred writes of the same column of a matrix are kept once."""
    loop = Loop()
    loop.allocate(0, _KB)
    for _ in range(100):
        loop.engine.launch(loop.thread, loop.a, [(0, 4, 8, 128, _WRITE, 0)], 1)

    assert loop.shadow() == (1, 1)


def test_rows_keep_the_write_of_what_they_leave_out() -> None:
    """A newer write of one column leaves the older write of the whole block where it was."""
    loop = Loop()
    loop.allocate(0, _KB)
    loop.write(0, _KB)
    loop.engine.launch(loop.thread, loop.a, [(0, 4, 8, 128, _WRITE, 0)], 1)
    assert loop.shadow() == (2, 3)  # the last row ends four bytes before the block does

    loop.engine.launch(loop.thread, loop.b, [(4, 4, 8, 127, _READ, 0)], 2)
    races = [(race.first.op, race.second.op) for race in loop.engine.take_races()]
    assert races == [(1, 3)]


def test_forgotten_bytes_have_no_block() -> None:
    """The rest of the block stays what it was."""
    loop = Loop()
    block = loop.allocate(0, _KB)

    loop.engine.forget(0, 512)

    assert loop.engine.allocation_at(0) == 0
    assert loop.engine.allocation_at(512) == block
