"""Blocks and bytes of the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Block:
    """A block: `base` is its first byte in its arena."""

    serial: int
    arena: int
    base: int
    size: int
    kind: str
    device: int = 0
    owner: int | None = None
    recorded: list[int] = field(default_factory=list)
    freed: str | None = None
    events: list[int] = field(default_factory=list)  # nodes left by record_stream at its free

    def mask(self, begin: int, end: int) -> int:
        """Bytes [begin, end) of the block, as bits of its arena."""
        return ((1 << (end - begin)) - 1) << (self.base + begin)


class Blocks:
    """Blocks and views by name."""

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self.all_blocks: list[Block] = []
        self.views: dict[str, tuple[Block, int, int]] = {}
        self.arenas = 0

    def region(self, text: str) -> list[tuple[Block, int]]:
        """Return the block and the bytes as bits."""
        name, _, inside = text.partition("[")
        if name in self.views:
            block, base, end = self.views[name]
        else:
            block, base = self.blocks[name], 0
            end = block.size
        if not inside:
            return [(block, block.mask(base, end))]
        bounds, _, rows = inside.rstrip("]").partition(":")
        low = int(bounds)
        high_text, _, pattern = rows.partition(":")
        high = int(high_text)
        if not pattern:
            return [(block, block.mask(base + low, base + high))]
        pitch, width = map(int, pattern.split("/"))
        mask = 0
        for row in range(low, high, pitch):
            mask |= block.mask(base + row, base + max(row, min(row + width, high)))
        return [(block, mask)]
