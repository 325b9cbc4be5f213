"""Random litmus programs that use every verb, all of them valid.

A program is a function of its seed alone: `random_program(seed)` replays it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

_STREAMS = (
    ("a", None),
    ("b", None),
    ("c", "blocking"),
    ("d", "blocking"),
    ("n", "nonblocking"),
    ("p", "nonblocking device=1"),
    ("q", "blocking device=1"),
    ("l", "legacy device=1"),
)


@dataclass
class _Block:
    name: str
    size: int
    kind: str
    freed: bool = False


@dataclass
class _Writer:
    """Writes one program line by line and knows what may come next."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    blocks: list[_Block] = field(default_factory=list)
    views: list[tuple[str, int]] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)
    labels: int = 0
    names: int = 0

    def write(self, text: str) -> None:
        thread = self.rng.choice(self.threads)
        self.lines.append(text if thread == "main" else f"@{thread} {text}")

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def label(self) -> str:
        self.labels += 1
        return f"'op {self.labels}'"

    def stream(self) -> str:
        return self.rng.choice(self.streams)

    def event(self) -> str:
        return f"e{self.rng.randrange(4)}"

    def region(self, kinds: tuple[str, ...] = ("device", "pinned", "pageable")) -> str:
        """A region of a live block, now and then of a freed one."""
        live = [(b.name, b.size) for b in self.blocks if b.kind in kinds and not b.freed]
        freed = [(b.name, b.size) for b in self.blocks if b.kind in kinds and b.freed]
        if kinds == ("device", "pinned", "pageable"):
            live += self.views
        if freed and (self.rng.random() < 0.04 or not live):
            live = freed
        name, size = self.rng.choice(live)
        shape = self.rng.random()
        if shape < 0.35:
            return name
        low = self.rng.randrange(size + 1)
        high = self.rng.randrange(low, size + 1)
        if shape < 0.7:
            return f"{name}[{low}:{high}]"
        pitch = self.rng.randrange(1, 9)
        return f"{name}[{low}:{high}:{pitch}/{self.rng.randrange(1, pitch + 2)}]"

    # Events ---------------------------------------------------------------------------------------

    def allocate(self) -> None:
        kind = self.rng.choice(("device", "device", "device", "pinned", "pageable"))
        freed = [block for block in self.blocks if block.freed]
        size = self.rng.choice((8, 16, 24, 40))
        option = ""
        if freed and self.rng.random() < 0.75:
            old = self.rng.choice(freed)
            offset = self.rng.choice((0, 0, 4, 8, old.size // 2))
            option = f" reuse={old.name}" + (f"+{offset}" if offset else "")
        name = self.name("m")
        verb = "alloc" if kind == "device" else f"alloc_{kind}"
        owner = f" {self.stream()}" if kind == "device" else ""
        self.write(f"{verb} {name} {size}{owner}{option}")
        self.blocks.append(_Block(name, size, kind))

    def view(self) -> None:
        block = self.rng.choice([block for block in self.blocks if not block.freed])
        low = self.rng.randrange(block.size)
        high = self.rng.randrange(low + 1, block.size + 1)
        name = self.name("v")
        self.write(f"view {name} {block.name}[{low}:{high}]")
        self.views.append((name, high - low))

    def free(self) -> None:
        live = [block for block in self.blocks if not block.freed]
        if len(live) < 3:
            return
        block = self.rng.choice(live)
        for _ in range(self.rng.choice((0, 0, 1, 2))):
            self.write(f"record_stream {block.name} {self.stream()}")
        self.write(f"{self.rng.choice(('free', 'free', 'free', 'free_sync'))} {block.name}")
        block.freed = True

    def access(self, stream: str | None = None) -> None:
        stream = stream or self.stream()
        verb = self.rng.choice(("read", "read", "write", "write", "rw"))
        self.write(f"{verb} {stream} {self.region()} {self.label()}")

    def copy(self, stream: str | None = None) -> None:
        verb = self.rng.choice(("copy", "copy", "copy_sync")) if stream is None else "copy"
        stream = stream or self.stream()
        self.write(f"{verb} {stream} {self.region()} {self.region()} {self.label()}")

    def memset(self, stream: str | None = None) -> None:
        verb = self.rng.choice(("memset", "memset_sync")) if stream is None else "memset"
        self.write(f"{verb} {stream or self.stream()} {self.region()} {self.label()}")

    def collective(self, stream: str | None = None) -> None:
        words = [f"in={self.region()}"] if self.rng.random() < 0.7 else []
        words += [f"out={self.region()}"] if not words or self.rng.random() < 0.7 else []
        if self.rng.random() < 0.7:
            words.append(f"comm=w{self.rng.randrange(2)}")
        self.rng.shuffle(words)
        self.write(f"collective {stream or self.stream()} {' '.join(words)} {self.label()}")

    def host_access(self) -> None:
        verb = self.rng.choice(("hostread", "hostwrite"))
        self.write(f"{verb} {self.region()} {self.label()}")

    def order(self) -> None:
        event = self.event()
        self.write(
            self.rng.choice(
                (
                    f"record {event} {self.stream()}",
                    f"record {event} {self.stream()}",
                    f"wait {self.stream()} {event}",
                    f"wait {self.stream()} {event}",
                    f"wait_stream {self.stream()} {self.stream()}",
                    f"wait_stream {self.stream()} {self.stream()}",
                )
            )
        )

    def host_order(self) -> None:
        event = self.event()
        message = f"k{self.rng.randrange(2)}"
        self.write(
            self.rng.choice(
                (
                    f"hostsync {self.stream()}",
                    f"event_sync {event}",
                    f"event_query {event}=done",
                    f"event_query {event}=notready",
                    self.rng.choice(("device_sync", "device_sync 1")),
                    f"post {message}",
                    f"post {message}",
                    f"take {message}",
                    f"take {message}",
                )
            )
        )

    def graph(self) -> None:
        """Capture a graph whose forks are all joined; its events never leave it."""
        name = self.name("g")
        self.write(f"graph_begin {name}")
        open_branches = ["cap"]
        for _ in range(self.rng.randrange(1, 7)):
            branch = self.rng.choice(open_branches)
            match self.rng.randrange(7):
                case 0 if len(open_branches) < 3:
                    forked = f"cap{len(open_branches) + 1}"
                    self.write(f"wait_stream {forked} {branch}")
                    open_branches.append(forked)
                case 1:
                    self.write(f"record {name}x{self.rng.randrange(2)} {branch}")
                case 2:
                    self.write(f"wait {branch} {name}x{self.rng.randrange(2)}")
                case 3:
                    self.copy(branch)
                case 4:
                    self.rng.choice((self.memset, self.collective))(branch)
                case _:
                    self.access(branch)
        for branch in reversed(open_branches[1:]):
            self.write(f"record {name}x9 {branch}")
            self.write(f"wait cap {name}x9")
        if self.rng.random() < 0.5:
            self.access("cap")
        self.write(f"graph_end {name}")
        self.graphs.append(name)

    def launch_graph(self) -> None:
        if self.graphs:
            self.write(f"graph_launch {self.rng.choice(self.graphs)} {self.stream()}")


def random_program(seed: int) -> list[str]:
    """Write the program of one seed."""
    rng = random.Random(seed)
    writer = _Writer(rng)
    writer.threads = ["main", "main", "main", "t1", "t2"][: rng.choice((1, 1, 4, 5))]
    chosen = rng.sample(_STREAMS, rng.randrange(2, 5))
    writer.streams = ["s0"] if rng.random() < 0.6 else []
    for name, kind in chosen:
        if kind is not None:
            writer.write(f"stream_create {name} {kind}")
        writer.streams.append(name)
    if rng.random() < 0.2:
        writer.write(f"stream_alias z {writer.stream()}")
        writer.streams.append("z")
    for _ in range(rng.randrange(2, 4)):
        writer.allocate()
    events = (
        [writer.access] * 9
        + [writer.order] * rng.choice((4, 12, 40))
        + [writer.host_order] * 3
        + [writer.copy, writer.copy, writer.memset, writer.collective, writer.collective]
        + [writer.host_access] * 2
        + [writer.free, writer.free, writer.allocate, writer.allocate, writer.view]
    )
    if rng.random() < 0.35:
        events += [writer.graph] + [writer.launch_graph] * 3
    for _ in range(rng.randrange(8, 45)):
        rng.choice(events)()
    return writer.lines
