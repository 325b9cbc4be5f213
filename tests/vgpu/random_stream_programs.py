"""Random litmus programs that CUDA's runtime can run: one host thread, no queries, no graphs.

A program is a function of its seed alone. Every access of a freed block is avoided, because what it
sees depends on the allocator. Sizes count cells of 8 bytes where a program runs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

_STREAMS = (
    ("s0", None, 0),
    ("a", None, 0),
    ("b", None, 0),
    ("c", "blocking", 0),
    ("d", "blocking", 0),
    ("l", "legacy device=1", 1),
    ("p", "nonblocking device=1", 1),
    ("q", "blocking device=1", 1),
)
_CELLS = 12


@dataclass
class _Block:
    name: str
    kind: str
    size: int = _CELLS
    # The memory blocks, by first name, whose bytes may have been copied here; itself among them.
    origins: set[str] = field(default_factory=set)


@dataclass
class _Writer:
    rng: random.Random
    streams: list[tuple[str, int]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    live: list[_Block] = field(default_factory=list)
    freed: list[_Block] = field(default_factory=list)
    names: int = 0

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def stream(self) -> str:
        return self.rng.choice(self.streams)[0]

    def event_of(self, device: int) -> str:
        return f"e{device}_{self.rng.randrange(3)}"

    def event(self) -> str:
        return self.event_of(self.rng.choice(self.streams)[1])

    def span(self, block: _Block) -> tuple[int, int]:
        low = self.rng.randrange(block.size)
        return low, self.rng.randrange(low + 1, block.size + 1)

    def region(self, *kinds: str) -> str:
        block = self.rng.choice([block for block in self.live if block.kind in kinds])
        low, high = self.span(block)
        match self.rng.randrange(4):
            case 0:
                return block.name
            case 1:
                pitch = self.rng.randrange(2, 6)
                return f"{block.name}[{low}:{high}:{pitch}/{self.rng.randrange(1, pitch)}]"
            case _:
                return f"{block.name}[{low}:{high}]"

    # Events ---------------------------------------------------------------------------------------

    def allocate(self) -> None:
        kind = self.rng.choice(("device", "device", "device", "pinned", "pageable"))
        old = [block for block in self.freed if block.kind == kind and block.size == _CELLS]
        block = _Block(self.name("m"), kind)
        block.origins = {block.name}
        option = ""
        if old and self.rng.random() < 0.8:
            reused = self.rng.choice(old)
            self.freed.remove(reused)
            block.origins = reused.origins
            offset = self.rng.choice((0, 0, 4))
            block.size -= offset
            option = f" reuse={reused.name}" + (f"+{offset}" if offset else "")
        verb = "alloc" if kind == "device" else f"alloc_{kind}"
        owner = f" {self.stream()}" if kind == "device" else ""
        self.lines.append(f"{verb} {block.name} {block.size}{owner}{option}")
        self.live.append(block)

    def free(self) -> None:
        if sum(block.kind == "device" for block in self.live) < 3:
            return
        block = self.rng.choice([block for block in self.live if block.kind == "device"])
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            self.lines.append(f"record_stream {block.name} {self.stream()}")
        self.lines.append(f"free {block.name}")
        self.live.remove(block)
        self.freed.append(block)

    def access(self) -> None:
        verb = self.rng.choice(("read", "read", "write", "rw"))
        region = self.region("device", "pinned")
        self.lines.append(f"{verb} {self.stream()} {region} '{self.name('op ')}'")

    def copy(self) -> None:
        """Between two blocks of which one is the device's, as long as both allow.

        Bytes never meet a copy of themselves: a race that writes what is there leaves no trace.
        """
        device = [block for block in self.live if block.kind == "device"]
        source, target = self.rng.choice(device), self.rng.choice(self.live)
        if source is target:
            return
        if self.rng.random() < 0.5:
            source, target = target, source
        if source.origins & target.origins:
            return
        target.origins |= source.origins
        (low, high), (to, end) = self.span(source), self.span(target)
        length = min(high - low, end - to)
        regions = f"{target.name}[{to}:{to + length}] {source.name}[{low}:{low + length}]"
        verb, stream = self.blocking_or_not("copy")
        self.lines.append(f"{verb} {stream} {regions} '{self.name('op ')}'")

    def memset(self) -> None:
        block = self.rng.choice([block for block in self.live if block.kind != "pageable"])
        low, high = self.span(block)
        verb, stream = self.blocking_or_not("memset")
        self.lines.append(f"{verb} {stream} {block.name}[{low}:{high}] '{self.name('op ')}'")

    def blocking_or_not(self, verb: str) -> tuple[str, str]:
        """The blocking form exists on the legacy stream of a device alone."""
        legacy = [name for name, _ in self.streams if name in ("s0", "l")]
        if legacy and self.rng.random() < 0.4:
            return f"{verb}_sync", self.rng.choice(legacy)
        return verb, self.stream()

    def host_access(self) -> None:
        if any(block.kind != "device" for block in self.live):
            verb = self.rng.choice(("hostread", "hostwrite"))
            region = self.region("pinned", "pageable")
            self.lines.append(f"{verb} {region} '{self.name('op ')}'")

    def order(self) -> None:
        match self.rng.randrange(4):
            case 0:
                stream, device = self.rng.choice(self.streams)
                self.lines.append(f"record {self.event_of(device)} {stream}")
            case 1:
                self.lines.append(f"wait {self.stream()} {self.event()}")
            case _:
                self.lines.append(f"wait_stream {self.stream()} {self.stream()}")

    def host_order(self) -> None:
        devices = sorted({device for _, device in self.streams})
        self.lines.append(
            self.rng.choice(
                (
                    f"hostsync {self.stream()}",
                    f"hostsync {self.stream()}",
                    f"event_sync {self.event()}",
                    f"device_sync {self.rng.choice(devices)}",
                )
            )
        )


def random_stream_program(seed: int) -> list[str]:
    """Write the program of one seed."""
    rng = random.Random(seed)
    writer = _Writer(rng)
    for name, kind, device in rng.sample(_STREAMS, rng.choice((1, 2, 2, 3, 3, 4))):
        if kind is not None:
            writer.lines.append(f"stream_create {name} {kind}")
        writer.streams.append((name, device))
    writer.lines.append(f"alloc m0 {_CELLS} {writer.stream()}")
    writer.live.append(_Block("m0", "device", origins={"m0"}))
    for _ in range(rng.randrange(1, 3)):
        writer.allocate()
    events = (
        [writer.access] * 5
        + [writer.order] * rng.choice((3, 10, 30))
        + [writer.host_order] * rng.choice((0, 1, 3))
        + [writer.copy, writer.copy, writer.memset, writer.host_access]
        + [writer.free, writer.allocate]
    )
    for _ in range(rng.randrange(5, 40)):
        rng.choice(events)()
    return writer.lines
