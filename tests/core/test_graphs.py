"""Captured graphs: what a capture may hold, and what a destroyed graph gives back."""

from __future__ import annotations

from streamguard._core import AccessKind, Engine, MemoryKind, RaceDomain, RaceKind, StreamKind

_READ, _WRITE = AccessKind.READ, AccessKind.WRITE
_FORK, _JOIN = 1, 2
_MORE_THAN_REMEMBERED = 5000


class Capture:
    """A bounded engine with two streams that run graphs and two that capture them."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.thread = self.engine.add_host_thread()
        streams = [self.engine.add_stream(0, StreamKind.NONBLOCKING) for _ in range(4)]
        self.a, self.b, self.origin, self.fork = streams

    def allocate(self) -> int:
        """A block on the same 64 bytes each time."""
        return self.engine.allocate(self.thread, 0, 64, MemoryKind.DEVICE, self.a)

    def access(self, stream: int, kind: AccessKind, block: int = 0) -> None:
        """One kernel on the first bytes."""
        self.engine.launch(self.thread, stream, [(0, 8, 8, 1, kind, block)], 1)

    def wait(self, waiting: int, waited: int, event: int) -> None:
        """An event from one stream to the other."""
        self.engine.record_event(self.thread, event, waited)
        self.engine.wait_event(self.thread, waiting, event)

    def graph(self, kind: AccessKind) -> int:
        """A graph with one kernel on a joined fork."""
        self.engine.begin_capture(self.origin)
        self.wait(self.fork, self.origin, _FORK)
        self.access(self.fork, kind)
        self.wait(self.origin, self.fork, _JOIN)
        graph = self.engine.end_capture(self.origin)
        assert graph is not None
        return graph

    def replace_many_blocks(self) -> None:
        """Fill the list of remembered freed blocks."""
        for _ in range(_MORE_THAN_REMEMBERED):
            self.engine.free(self.thread, self.allocate(), 1)


def test_a_capture_with_work_on_an_open_fork_is_dropped() -> None:
    """CUDA refuses it: there is no graph, and both streams run again."""
    run = Capture()
    run.engine.begin_capture(run.origin)
    run.wait(run.fork, run.origin, _FORK)
    run.access(run.fork, _WRITE)

    graph = run.engine.end_capture(run.origin)

    assert graph is None
    assert not run.engine.is_capturing(run.origin)
    assert not run.engine.is_capturing(run.fork)


def test_a_destroyed_graph_gives_its_clocks_and_lanes_back() -> None:
    """Capturing, launching and destroying again needs no more of either."""
    run = Capture()
    run.allocate()
    sizes = []
    for _ in range(4):
        graph = run.graph(_WRITE)
        run.engine.launch_graph(run.thread, graph, run.a)
        run.engine.sync_stream(run.thread, run.a)
        run.engine.destroy_graph(graph)
        counts = run.engine.counts()
        sizes.append((counts["snapshots"], counts["lanes"]))

    assert sizes == [sizes[0]] * 4


def test_lanes_of_a_destroyed_graph_are_not_used_while_they_may_race() -> None:
    """Two graphs on two streams without order race, also when the first is gone already."""
    run = Capture()
    run.allocate()
    first = run.graph(_WRITE)
    run.engine.launch_graph(run.thread, first, run.a)
    run.engine.destroy_graph(first)
    second = run.graph(_READ)

    run.engine.launch_graph(run.thread, second, run.b)

    races = run.engine.take_races()
    assert len(races) == 1
    assert (races[0].kind, races[0].domain) == (RaceKind.RAW, RaceDomain.DEVICE)


def test_a_graph_keeps_the_block_of_its_capture_in_mind() -> None:
    """However many blocks follow on the bytes, a launch uses the freed one."""
    run = Capture()
    block = run.allocate()
    graph = run.graph(_READ)
    run.engine.free(run.thread, block, 7)
    run.replace_many_blocks()

    run.engine.launch_graph(run.thread, graph, run.a)

    races = run.engine.take_races()
    assert len(races) == 1
    assert (races[0].kind, races[0].first.label) == (RaceKind.UAF, 7)
    assert races[0].first.allocation == block


def test_a_destroyed_graph_lets_go_of_the_block_of_its_capture() -> None:
    """It is forgotten as any other block; the same access is a use after free before that."""
    run = Capture()
    block = run.allocate()
    graph = run.graph(_READ)
    run.engine.free(run.thread, block, 7)
    run.allocate()
    run.engine.destroy_graph(graph)
    run.access(run.a, _READ, block)
    assert [race.kind for race in run.engine.take_races()] == [RaceKind.UAF]
    run.replace_many_blocks()

    run.access(run.a, _READ, block)

    assert not run.engine.has_races
