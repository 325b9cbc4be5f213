"""What a finding carries besides the pair: overlap, missing order, and watched order."""

from __future__ import annotations

from streamguard._core import (
    AccessKind,
    EdgeKind,
    Engine,
    MemoryKind,
    OrderEdge,
    Race,
    RaceDomain,
    RaceKind,
    StreamKind,
)

_READ, _WRITE = AccessKind.READ, AccessKind.WRITE
_EVENT = 77


def access(begin: int, size: int, kind: AccessKind) -> tuple[int, int, int, int, AccessKind, int]:
    """One plain range, looked up by address."""
    return (begin, size, size, 1, kind, 0)


class Run:
    """An engine as the hooks use it: bounded, one host clock, addresses only."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.thread = self.engine.add_host_thread()
        self.legacy = self.engine.add_stream(0, StreamKind.LEGACY)
        self.a = self.engine.add_stream(0, StreamKind.NONBLOCKING)
        self.b = self.engine.add_stream(0, StreamKind.NONBLOCKING)
        self.block = self.allocate(0, 4096)

    def allocate(self, begin: int, end: int, kind: MemoryKind = MemoryKind.DEVICE) -> int:
        """A block owned by stream a."""
        return self.engine.allocate(self.thread, begin, end, kind, self.a)

    def write(self, stream: int, begin: int, size: int) -> int:
        """One kernel."""
        return self.engine.launch(self.thread, stream, [access(begin, size, _WRITE)], 1)

    def read(self, stream: int, begin: int, size: int) -> int:
        """One kernel."""
        return self.engine.launch(self.thread, stream, [access(begin, size, _READ)], 2)

    def wait(self, waiting: int, waited: int) -> None:
        """An event from one stream to the other."""
        self.engine.record_event(self.thread, _EVENT, waited)
        self.engine.wait_event(self.thread, waiting, _EVENT)

    def only_race(self) -> Race:
        """The race that there must be."""
        races = self.engine.take_races()
        assert len(races) == 1
        return races[0]


def fields(edge: OrderEdge) -> tuple[EdgeKind, int, int | None, int, int]:
    """An edge as a tuple."""
    return edge.kind, edge.event, edge.from_stream, edge.after_op, edge.before_op


def test_a_race_names_both_accesses_and_the_shared_bytes() -> None:
    """Ops, labels, streams, epochs, regions, and the first run of bytes both touch."""
    run = Run()
    written = run.write(run.a, 0, 100)
    read = run.read(run.b, 60, 100)

    race = run.only_race()

    assert (race.kind, race.domain) == (RaceKind.RAW, RaceDomain.DEVICE)
    assert (race.first.op, race.first.label, race.first.stream) == (written, 1, run.a)
    assert (race.second.op, race.second.label, race.second.stream) == (read, 2, run.b)
    assert (race.first.epoch, race.second.epoch) == (1, 1)
    assert (race.first.allocation, race.second.allocation) == (run.block, run.block)
    assert race.overlap == (60, 100)


def test_missing_order_tells_the_last_wait_and_an_event_that_would_do() -> None:
    """The reader waited for an event before the write; another was recorded after the write."""
    run = Run()
    early = run.write(run.a, 2000, 8)
    run.wait(run.b, run.a)
    run.write(run.a, 0, 8)
    run.engine.record_event(run.thread, 99, run.a)
    read = run.read(run.b, 0, 8)

    missing = run.only_race().missing

    assert (missing.known_epoch, missing.needed_epoch) == (1, 2)
    assert missing.last_wait is not None
    assert fields(missing.last_wait) == (EdgeKind.EVENT_WAIT, _EVENT, run.a, early, early + 1)
    assert missing.event_after_first == 99
    assert read == early + 2


def test_missing_order_without_any_wait() -> None:
    """Nothing is known, no event was recorded."""
    run = Run()
    run.write(run.a, 0, 8)
    run.read(run.b, 0, 8)

    missing = run.only_race().missing

    assert (missing.known_epoch, missing.needed_epoch) == (0, 1)
    assert missing.last_wait is None
    assert missing.event_after_first is None


def test_watched_accesses_say_what_orders_them() -> None:
    """Event wait, stream order and host wait, each with the op it covers."""
    run = Run()
    run.engine.watch(0, 64)
    written = run.write(run.a, 0, 64)
    run.wait(run.b, run.a)
    read = run.read(run.b, 0, 64)
    run.engine.sync_stream(run.thread, run.b)
    rewritten = run.write(run.a, 0, 64)
    run.write(run.a, 64, 64)

    logged = run.engine.take_watched()

    assert [entry.access.op for entry in logged] == [written, read, rewritten]
    assert logged[0].after == []
    assert [(after.earlier.op, fields(after.edge)) for after in logged[1].after] == [
        (written, (EdgeKind.EVENT_WAIT, _EVENT, run.a, written, read))
    ]
    assert [(after.earlier.op, fields(after.edge)) for after in logged[2].after] == [
        (written, (EdgeKind.STREAM_ORDER, 0, run.a, written, rewritten)),
        (read, (EdgeKind.HOST_WAIT, 0, run.b, read, rewritten)),
    ]
    assert not run.engine.has_races


def test_a_watched_race_has_no_edge() -> None:
    """The pair that races is listed with kind NONE; unwatching ends the log."""
    run = Run()
    run.engine.watch(0, 64)
    run.write(run.a, 0, 64)
    run.read(run.b, 0, 64)

    logged = run.engine.take_watched()
    run.engine.unwatch(0, 64)
    run.read(run.b, 0, 64)

    assert [after.edge.kind for after in logged[1].after] == [EdgeKind.NONE]
    assert run.engine.take_watched() == []


def test_watched_order_by_fence_and_by_allocator() -> None:
    """The legacy stream's fence; the allocator's wait for record_stream's event."""
    run = Run()
    blocking = run.engine.add_stream(0, StreamKind.BLOCKING)
    run.engine.watch(0, 64)
    run.write(blocking, 0, 64)
    run.write(run.legacy, 0, 64)
    run.engine.record_stream(run.block, run.legacy)
    run.engine.free(run.thread, run.block, 3)
    run.allocate(0, 64)
    run.write(run.a, 0, 64)

    logged = run.engine.take_watched()

    assert [after.edge.kind for after in logged[1].after] == [EdgeKind.LEGACY_FENCE]
    assert [after.edge.kind for after in logged[2].after] == [
        EdgeKind.ALLOCATOR,
        EdgeKind.ALLOCATOR,
    ]


def test_reuse_is_seen_by_address_alone() -> None:
    """The engine finds the block at an address itself, also after the bytes changed hands."""
    run = Run()
    run.read(run.b, 512, 64)
    run.engine.free(run.thread, run.block, 3)
    assert run.engine.allocation_at(512) == run.block
    assert not run.engine.is_live(run.block)
    tenant = run.allocate(512, 1024)

    run.write(run.a, 512, 64)

    race = run.only_race()
    assert (race.kind, race.domain) == (RaceKind.WAR, RaceDomain.REUSE)
    assert (race.first.allocation, race.second.allocation) == (run.block, tenant)


def test_use_after_free_is_found_by_address_once_for_each_op() -> None:
    """Two accesses of one op to a freed block are one finding, named after the free."""
    run = Run()
    run.write(run.a, 0, 8)
    freed = run.engine.free(run.thread, run.block, 3)

    both = [access(0, 8, _READ), access(16, 8, _WRITE)]
    op = run.engine.launch(run.thread, run.a, both, 4)

    race = run.only_race()
    assert (race.kind, race.domain) == (RaceKind.UAF, RaceDomain.LIFETIME)
    assert (race.first.op, race.first.label, race.second.op) == (freed, 3, op)


def test_a_new_block_in_known_complete_memory_is_no_reuse() -> None:
    """Pinned storage: the allocator waited unseen, the caller says so with forget."""
    run = Run()
    run.read(run.b, 0, 64)
    run.engine.forget(0, 4096)
    run.allocate(0, 4096, MemoryKind.PINNED)

    run.engine.host_access(run.thread, [access(0, 64, _WRITE)], 5)

    assert not run.engine.has_races


def test_an_access_to_the_same_bytes_as_before_notices_the_free() -> None:
    """The block that the engine remembers for those bytes is looked up again."""
    run = Run()
    run.write(run.a, 0, 8)
    run.engine.free(run.thread, run.block, 3)

    run.read(run.a, 0, 8)

    race = run.only_race()
    assert (race.kind, race.first.allocation) == (RaceKind.UAF, run.block)


def test_an_access_to_the_same_bytes_as_before_notices_the_new_block() -> None:
    """After a use after free at those bytes, the next block there is a live one."""
    run = Run()
    run.engine.free(run.thread, run.block, 3)
    run.read(run.a, 0, 8)
    assert run.only_race().kind == RaceKind.UAF
    run.allocate(0, 4096)

    run.write(run.a, 0, 8)

    assert not run.engine.has_races


def test_an_op_of_very_many_interleaved_rows_is_entered_at_once() -> None:
    """Rows of two pitches over a gigabyte: the read is kept whole beside the write."""
    run = Run()
    size = 1 << 30
    written = (0, 1, 2, size // 2, _WRITE, 0)
    read = (0, 1, 3, size // 3, _READ, 0)

    run.engine.launch(run.thread, run.a, [read, written], 1)

    counts = run.engine.counts()
    assert counts["entries"] <= 4
    assert not run.engine.has_races


def test_a_block_that_is_only_seen_later_is_no_reuse() -> None:
    """Bytes accessed before their allocation was seen belong to no other block."""
    run = Run()
    run.write(run.a, 8192, 8)
    run.allocate(8192, 8200)

    run.read(run.b, 8192, 8)

    race = run.only_race()
    assert (race.kind, race.domain) == (RaceKind.RAW, RaceDomain.DEVICE)
