"""Names of a litmus program: blocks, streams, and numbers for everything else."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass

from streamguard import _core
from streamguard.litmus.errors import StatementError
from streamguard.litmus.statement import RegionText

# Address space of one block and of all blocks that reuse its bytes.
_ARENA_BYTES = 1 << 40
_CAPTURE_STREAM = re.compile(r"^cap\d*$")

CoreAccess = tuple[int, int, int, int, _core.AccessKind, int]


class Interned:
    """Gives each key a number, from 1."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.keys: list[Hashable] = []

    def number(self, key: Hashable) -> int:
        """Return the key's number; a new key gets the next one."""
        found = self._numbers.get(key)
        if found is None:
            self.keys.append(key)
            found = self._numbers[key] = len(self.keys)
        return found

    def key(self, number: int) -> Hashable:
        """Return the key that has this number."""
        return self.keys[number - 1]


@dataclass(slots=True)
class Block:
    """One block of memory; `arena_end` bounds the bytes that later blocks may reuse."""

    name: str
    allocation: int
    begin: int
    end: int
    arena_end: int
    is_freed: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """Bytes of a block under a name of their own."""

    block: Block
    begin: int
    end: int


class Memory:
    """Blocks and views by name, and where they lie."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}
        self._views: dict[str, View] = {}
        self._arenas = 0

    def place(self, size: int, reuse: str | None, line: int) -> tuple[int, int]:
        """Return the begin and the arena's end of a new block of `size` bytes."""
        if reuse is None:
            self._arenas += 1
            begin, arena_end = self._arenas * _ARENA_BYTES, (self._arenas + 1) * _ARENA_BYTES
        else:
            name, _, offset = reuse.partition("+")
            if offset and not (offset.isascii() and offset.isdigit() and len(offset) <= 18):
                raise StatementError(line, f"reuse={reuse}: the offset is no number of bytes")
            old = self.block(name, line)
            if not old.is_freed:
                raise StatementError(line, f"reuse={reuse}: {name!r} was not freed")
            begin, arena_end = old.begin + int(offset or 0), old.arena_end
        if size > arena_end - begin:
            raise StatementError(line, f"{size} bytes are more than this notation can place")
        return begin, arena_end

    def check_new(self, name: str, line: int) -> None:
        """Refuse a second block or view of one name, unless the first block was freed."""
        old = self._blocks.get(name)
        if name in self._views or (old is not None and not old.is_freed):
            raise StatementError(line, f"{name!r} already exists")

    def add_block(self, block: Block) -> None:
        """Enter a new block under its name."""
        self._blocks[block.name] = block

    def add_view(self, name: str, region: RegionText, line: int) -> None:
        """Enter a view."""
        if region.pitch is not None:
            raise StatementError(line, "a view is a range of bytes, not rows")
        block, begin, end = self._resolve(region, line)
        self._views[name] = View(block, begin, end)

    def block(self, name: str, line: int) -> Block:
        """Return the newest block of that name."""
        if name not in self._blocks:
            what = "is a view" if name in self._views else "was never allocated"
            raise StatementError(line, f"block {name!r} {what}")
        return self._blocks[name]

    def accesses(self, region: RegionText, kind: _core.AccessKind, line: int) -> list[CoreAccess]:
        """Return the region as the engine takes it: a cut last row is an access of its own."""
        block, begin, end = self._resolve(region, line)
        size = end - begin
        allocation = block.allocation
        if region.pitch is None or region.width is None or region.width >= region.pitch:
            return [(begin, size, size, 1 if size else 0, kind, allocation)]
        whole_rows, rest = divmod(size, region.pitch)
        rows = whole_rows + (1 if rest >= region.width else 0)
        result: list[CoreAccess] = []
        if rows or not rest or not region.width:
            result.append((begin, region.width, region.pitch, rows, kind, allocation))
        if 0 < rest < region.width:
            cut = begin + whole_rows * region.pitch
            result.append((cut, rest, rest, 1, kind, allocation))
        return result

    def _resolve(self, region: RegionText, line: int) -> tuple[Block, int, int]:
        view = self._views.get(region.name)
        if view is None:
            block = self.block(region.name, line)
            view = View(block, block.begin, block.end)
        if region.begin is None or region.end is None:
            return view.block, view.begin, view.end
        if region.end > view.end - view.begin:
            raise StatementError(
                line,
                f"byte {region.end} is outside {region.name!r}, which has "
                f"{view.end - view.begin} bytes",
            )
        return view.block, view.begin + region.begin, view.begin + region.end


class Streams:
    """Streams by name; inside a capture `cap`, `cap2`, ... are the graph's own."""

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._streams: dict[str, int] = {}
        self._capture: dict[str, int] | None = None
        self._names: dict[int, str] = {}

    def declare(self, name: str, kind: _core.StreamKind, device: int, line: int) -> None:
        """Declare a stream. REQUIRES: the name was not used before."""
        self._check_unused(name, line)
        self._add(self._streams, name, kind, device)

    def alias(self, name: str, other: str, line: int) -> None:
        """Give a stream a second name."""
        stream = self.find(other)
        self._check_unused(name, line)
        self._streams[name] = stream

    def begin_capture(self) -> int:
        """Open the names of a graph and return its origin stream."""
        self._capture = {}
        return self.find("cap")

    def end_capture(self) -> int:
        """Close the names of the graph and return its origin stream."""
        origin = self.find("cap")
        self._capture = None
        return origin

    @property
    def is_capturing(self) -> bool:
        """Whether a graph is open."""
        return self._capture is not None

    def is_capture_name(self, name: str) -> bool:
        """Whether the name means a stream of the open graph."""
        return self._capture is not None and _CAPTURE_STREAM.match(name) is not None

    def find(self, name: str) -> int:
        """Return the stream, creating one that was never declared."""
        if self._capture is not None and self.is_capture_name(name):
            names = self._capture
        else:
            names = self._streams
        if name not in names:
            is_default = name == "s0"
            kind = _core.StreamKind.LEGACY if is_default else _core.StreamKind.NONBLOCKING
            self._add(names, name, kind, 0)
        return names[name]

    def name_of(self, stream: int) -> str:
        """Return the first name that the stream had."""
        return self._names[stream]

    def named(self) -> list[tuple[int, str]]:
        """Every stream with its name, in order of creation."""
        return sorted(self._names.items())

    def _add(self, names: dict[str, int], name: str, kind: _core.StreamKind, device: int) -> None:
        names[name] = self._engine.add_stream(device, kind)
        self._names.setdefault(names[name], name)

    def _check_unused(self, name: str, line: int) -> None:
        if name in self._streams:
            raise StatementError(line, f"stream {name!r} is declared or used above")
