"""Shadow memory when it grows: no history is lost or invented as cells move."""

from __future__ import annotations

import random

from streamguard._core import AccessKind, Engine, History, MemoryKind, StreamKind

_READ, _WRITE = AccessKind.READ, AccessKind.WRITE
_BLOCK = 4096
_COUNT = 3000


class Program:
    """Random accesses of two unordered streams, and the races that a table of bytes expects."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.engine = Engine(history=History.BOUNDED)
        self.thread = self.engine.add_host_thread()
        self.streams = [self.engine.add_stream(0, StreamKind.NONBLOCKING) for _ in range(2)]
        # Half a block is the grain: newest read and write of each stream in each half.
        self.newest: dict[tuple[int, int, AccessKind], int] = {}
        self.expected: set[tuple[int, int]] = set()
        for block in range(_COUNT):
            begin = block * _BLOCK
            self.engine.allocate(
                self.thread, begin, begin + _BLOCK, MemoryKind.DEVICE, self.streams[0]
            )

    def access(self, half: int, halves: int, stream: int, kind: AccessKind) -> None:
        """Touch `halves` half blocks from `half` on."""
        size = halves * _BLOCK // 2
        begin = half * _BLOCK // 2
        op = self.engine.launch(
            self.thread, self.streams[stream], [(begin, size, size, 1, kind, 0)], 1
        )
        for touched in range(half, half + halves):
            for earlier in (_READ, _WRITE):
                first = self.newest.get((touched, 1 - stream, earlier))
                if first is not None and _WRITE in (earlier, kind):
                    self.expected.add((first, op))
            self.newest[touched, stream, kind] = op

    def found(self) -> set[tuple[int, int]]:
        """Op ids of both accesses of every race."""
        return {(race.first.op, race.second.op) for race in self.engine.take_races()}


def test_growing_shadow_memory_keeps_every_history() -> None:
    """Cells are made, cut and joined while their number grows a hundredfold."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    program = Program(seed)
    for _ in range(4 * _COUNT):
        half = program.choose.randrange(2 * _COUNT - 3)
        program.access(
            half,
            program.choose.choice((1, 1, 2, 3)),
            program.choose.randrange(2),
            program.choose.choice((_READ, _WRITE)),
        )

    assert program.expected
    assert program.found() == program.expected


def test_forgotten_and_retaken_bytes_have_no_history() -> None:
    """Every second block is forgotten after growth: its bytes race no more, the others do."""
    program = Program(0)
    for block in range(_COUNT):
        program.access(2 * block, 2, 0, _WRITE)
    for block in range(0, _COUNT, 2):
        program.engine.forget(block * _BLOCK, (block + 1) * _BLOCK)
        for half in (2 * block, 2 * block + 1):
            del program.newest[half, 0, _WRITE]
    for block in range(_COUNT):
        program.access(2 * block, 2, 1, _READ)

    assert len(program.expected) == _COUNT // 2
    assert program.found() == program.expected
    assert program.engine.counts()["cells"] == _COUNT
