"""What races in a litmus program, worked out the slow and obvious way.

Every event becomes a node, every rule of FORMAT.md an edge; the transitive closure is a bit mask
per node and a region a bit mask of its bytes. It shares no code with the product, not even the
parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from tests.litmus.oracle_memory import Block, Blocks
from tests.litmus.oracle_order import OrderGraph


class Pair(NamedTuple):
    """One race as the case files write it."""

    kind: str
    domain: str
    first: str
    second: str


@dataclass
class Access:
    """Bytes touched by one op at one place."""

    op: int
    node: int
    label: str
    is_write: bool
    block: Block
    mask: int
    on_host: bool


@dataclass
class Step:
    """One captured call; `after` lists the steps it follows."""

    label: str
    writes: list[tuple[Block, int]]
    reads: list[tuple[Block, int]]
    comm: str | None
    after: list[int]


class Oracle(OrderGraph, Blocks):
    """Runs one program; `races` and `ordered_by_nccl` are the exact sets afterwards."""

    def __init__(self, lines: list[str]) -> None:
        OrderGraph.__init__(self)
        Blocks.__init__(self)
        self.event_nodes: dict[str, int] = {}
        self.messages: dict[str, int] = {}
        self.accesses: list[Access] = []
        self.uses_after_free: set[Pair] = set()
        self.ops = 0
        self.capture: list[Step] | None = None
        self.capture_last: dict[str, list[int]] = {}
        self.capture_events: dict[str, list[int]] = {}
        self.graphs: dict[str, tuple[list[Step], list[int]]] = {}
        for line in lines:
            self.event(line)
        self.races, self.ordered_by_nccl = self.judge()

    # Memory ---------------------------------------------------------------------------------------

    def touch(
        self,
        node: int,
        label: str,
        reads: list[tuple[Block, int]],
        writes: list[tuple[Block, int]],
        *,
        on_host: bool = False,
    ) -> None:
        """Enter the accesses of one op; what it also writes does not count as read."""
        self.ops += 1
        for is_write, regions in ((True, writes), (False, reads)):
            for block, mask in regions:
                rest = mask
                if not is_write:
                    for other, written in writes:
                        if other.arena == block.arena:
                            rest &= ~written
                if not rest:
                    continue
                if block.freed is not None:
                    self.uses_after_free.add(Pair("UAF", "lifetime", block.freed, label))
                self.accesses.append(Access(self.ops, node, label, is_write, block, rest, on_host))

    def allocate(self, thread: str, kind: str, words: list[str], options: list[str]) -> None:
        """Place a block; rule 7: events of freed blocks come before the next block there."""
        name, size = words[0], int(words[1])
        if options:
            old_name, _, offset = options[0].removeprefix("reuse=").partition("+")
            old = self.blocks[old_name]
            arena, base = old.arena, old.base + int(offset or 0)
        else:
            self.arenas += 1
            arena, base = self.arenas, 0
        block = Block(len(self.all_blocks) + 1, arena, base, size, kind)
        if kind == "device":
            block.owner = self.stream(words[2])
            block.device = self.flags[block.owner][1]
        waited = [
            event
            for old in self.all_blocks
            if old.arena == arena and old.base < base + size and base < old.base + old.size
            for event in old.events
        ]
        if waited:
            self.host_node(thread, waited)
        self.all_blocks.append(block)
        self.blocks[name] = block

    # Events ---------------------------------------------------------------------------------------

    def event(self, text: str) -> None:
        """Run one line."""
        label = re.search(r"'([^']*)'", text)
        words = re.sub(r"'[^']*'", "", text).split()
        thread = words.pop(0)[1:] if words[0].startswith("@") else "main"
        self.host.setdefault(thread, [])
        verb, *rest = words
        name = label.group(1) if label else " ".join(words)
        getattr(self, f"do_{verb}")(thread, rest, name)

    def do_stream_create(self, _thread: str, words: list[str], _name: str) -> None:
        """Declare."""
        device = int(words[2].removeprefix("device=")) if len(words) > 2 else 0
        self.create(words[0], words[1], device)

    def do_stream_alias(self, _thread: str, words: list[str], _name: str) -> None:
        """Name again."""
        self.streams[words[0]] = self.stream(words[1])

    def do_alloc(self, thread: str, words: list[str], _name: str) -> None:
        """Device block."""
        self.allocate(thread, "device", words, words[3:])

    def do_alloc_pinned(self, thread: str, words: list[str], _name: str) -> None:
        """Pinned block."""
        self.allocate(thread, "pinned", words, words[2:])

    def do_alloc_pageable(self, thread: str, words: list[str], _name: str) -> None:
        """Pageable block."""
        self.allocate(thread, "pageable", words, words[2:])

    def do_view(self, _thread: str, words: list[str], _name: str) -> None:
        """Second base pointer."""
        base_name, _, inside = words[1].partition("[")
        begin, end = 0, 0
        if base_name in self.views:
            block, begin, end = self.views[base_name]
        else:
            block = self.blocks[base_name]
            end = block.size
        if inside:
            low, high = map(int, inside.rstrip("]").split(":"))
            begin, end = begin + low, begin + high
        self.views[words[0]] = (block, begin, end)

    def do_record_stream(self, _thread: str, words: list[str], _name: str) -> None:
        """No-op for the owner."""
        block, stream = self.blocks[words[0]], self.stream(words[1])
        if stream != block.owner:
            block.recorded.append(stream)

    def do_free(self, thread: str, words: list[str], name: str) -> None:
        """Leave an event on each recorded stream."""
        block = self.blocks[words[0]]
        block.freed = name
        for stream in dict.fromkeys(block.recorded):
            block.events.append(self.device_node(thread, stream))

    def do_free_sync(self, thread: str, words: list[str], name: str) -> None:
        """Wait for the device, then free."""
        block = self.blocks[words[0]]
        self.do_device_sync(thread, [str(block.device)], name)
        block.freed = name

    def launch(
        self,
        thread: str,
        stream: str,
        name: str,
        reads: list[tuple[Block, int]],
        writes: list[tuple[Block, int]],
        comm: str | None = None,
    ) -> None:
        """Run or capture an op."""
        if self.capture is not None and re.fullmatch(r"cap\d*", stream):
            self.capture.append(Step(name, writes, reads, comm, self.capture_last[stream]))
            self.capture_last[stream] = [len(self.capture) - 1]
            return
        node = self.device_node(thread, self.stream(stream), comm=comm)
        self.touch(node, name, reads, writes)

    def do_read(self, thread: str, words: list[str], name: str) -> None:
        """Kernel."""
        self.launch(thread, words[0], name, self.region(words[1]), [])

    def do_write(self, thread: str, words: list[str], name: str) -> None:
        """Kernel."""
        self.launch(thread, words[0], name, [], self.region(words[1]))

    def do_rw(self, thread: str, words: list[str], name: str) -> None:
        """Kernel that does both: one write."""
        region = self.region(words[1])
        self.launch(thread, words[0], name, region, region)

    def do_collective(self, thread: str, words: list[str], name: str) -> None:
        """Reads in, writes out."""
        reads: list[tuple[Block, int]] = []
        writes: list[tuple[Block, int]] = []
        comm = None
        for word in words[1:]:
            key, _, value = word.partition("=")
            if key == "comm":
                comm = value
            elif key == "in":
                reads += self.region(value)
            else:
                writes += self.region(value)
        self.launch(thread, words[0], name, reads, writes, comm)

    def transfer(self, thread: str, words: list[str], name: str, *, sync: bool) -> None:
        """Copy or set memory."""
        stream, destination, *source = words
        writes = self.region(destination)
        reads = self.region(source[0]) if source else []
        to_kind = writes[0][0].kind
        from_kind = reads[0][0].kind if reads else "device"
        if self.capture is not None and re.fullmatch(r"cap\d*", stream):
            self.launch(thread, stream, name, reads, writes)
            return
        number = self.stream(stream)
        if from_kind == "pageable" and to_kind == "device":
            if sync:
                self.do_hostsync(thread, [stream], name)
            self.touch(self.host_node(thread, []), name, reads, [], on_host=True)
            self.touch(self.device_node(thread, number), name, [], writes)
            return
        node = self.device_node(thread, number)
        self.touch(node, name, reads, writes)
        on_host = [kind for kind in (from_kind, to_kind) if kind != "device"]
        if source:
            waits = len(on_host) == 2 or to_kind == "pageable" or (sync and bool(on_host))
        else:
            waits = sync and to_kind != "device"
        if waits:
            self.host_node(thread, [node])

    def do_copy(self, thread: str, words: list[str], name: str) -> None:
        """cudaMemcpyAsync."""
        self.transfer(thread, words, name, sync=False)

    def do_copy_sync(self, thread: str, words: list[str], name: str) -> None:
        """cudaMemcpy."""
        self.transfer(thread, words, name, sync=True)

    def do_memset(self, thread: str, words: list[str], name: str) -> None:
        """cudaMemsetAsync."""
        self.transfer(thread, words, name, sync=False)

    def do_memset_sync(self, thread: str, words: list[str], name: str) -> None:
        """cudaMemset: waits only when the target is host memory."""
        self.transfer(thread, words, name, sync=True)

    def do_hostread(self, thread: str, words: list[str], name: str) -> None:
        """CPU access."""
        self.touch(self.host_node(thread, []), name, self.region(words[0]), [], on_host=True)

    def do_hostwrite(self, thread: str, words: list[str], name: str) -> None:
        """CPU access."""
        self.touch(self.host_node(thread, []), name, [], self.region(words[0]), on_host=True)

    # Order ----------------------------------------------------------------------------------------

    def do_record(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 3."""
        event, stream = words
        if self.capture is not None and re.fullmatch(r"cap\d*", stream):
            self.capture_events[event] = self.capture_last[stream]
            return
        self.event_nodes[event] = self.device_node(thread, self.stream(stream))

    def do_wait(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 3: the newest record issued before; none: nothing happens."""
        stream, event = words
        if self.capture is not None and re.fullmatch(r"cap\d*", stream):
            if event in self.capture_events:
                known = self.capture_last.get(stream, []) + self.capture_events[event]
                self.capture_last[stream] = known
            return
        if event in self.event_nodes:
            self.device_node(thread, self.stream(stream), self.event_nodes[event])

    def do_wait_stream(self, thread: str, words: list[str], name: str) -> None:
        """Fresh event."""
        self.do_record(thread, ["(fresh)", words[1]], name)
        self.do_wait(thread, [words[0], "(fresh)"], name)
        self.event_nodes.pop("(fresh)", None)
        self.capture_events.pop("(fresh)", None)

    def do_hostsync(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 4, and 5 for the legacy stream."""
        stream = self.stream(words[0])
        kind, device = self.flags[stream]
        more = self.blocking_work(device) if kind == "legacy" else []
        self.host_node(thread, self.last[stream] + more)

    def do_event_sync(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 4."""
        if words[0] in self.event_nodes:
            self.host_node(thread, [self.event_nodes[words[0]]])

    def do_event_query(self, thread: str, words: list[str], name: str) -> None:
        """Rule 4 when done."""
        event, _, answer = words[0].partition("=")
        if answer == "done":
            self.do_event_sync(thread, [event], name)

    def do_device_sync(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 4, per device."""
        device = int(words[0]) if words else 0
        preds = [
            node
            for stream, flags in enumerate(self.flags)
            if flags[1] == device
            for node in self.last[stream]
        ]
        self.host_node(thread, preds)

    def do_post(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 6."""
        self.messages[words[0]] = self.host_node(thread, [])

    def do_take(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 6: the newest post; none: nothing happens."""
        if words[0] in self.messages:
            self.host_node(thread, [self.messages[words[0]]])

    # Graphs ---------------------------------------------------------------------------------------

    def do_graph_begin(self, _thread: str, _words: list[str], _name: str) -> None:
        """Nothing runs until the end."""
        self.capture = []
        self.capture_last = {"cap": []}
        self.capture_events = {}

    def do_graph_end(self, _thread: str, words: list[str], _name: str) -> None:
        """A new executable graph."""
        assert self.capture is not None
        self.graphs[words[0]] = (self.capture, [])
        self.capture = None

    def do_graph_launch(self, thread: str, words: list[str], _name: str) -> None:
        """Rule 8: after the stream and after earlier launches; the stream goes on after it."""
        steps, previous = self.graphs[words[0]]
        stream = self.stream(words[1])
        begin = self.device_node(thread, stream, *previous)
        nodes: list[int] = []
        for step in steps:
            preds9 = [self.comm_node[step.comm]] if step.comm in self.comm_node else []
            node = self.node([begin, *(nodes[after] for after in step.after)], preds9)
            if step.comm is not None:
                self.comm_node[step.comm] = node
            nodes.append(node)
            self.touch(node, step.label, step.reads, step.writes)
        end = self.node([begin, *nodes])
        self.last[stream] = [end]
        previous[:] = [end]

    # Verdict --------------------------------------------------------------------------------------

    def judge(self) -> tuple[set[Pair], set[Pair]]:
        """Compare every pair of accesses."""
        races, ordered = set(self.uses_after_free), set()
        for at, second in enumerate(self.accesses):
            for first in self.accesses[:at]:
                is_conflict = (first.is_write or second.is_write) and first.op != second.op
                if not is_conflict or first.block.arena != second.block.arena:
                    continue
                if not first.mask & second.mask or self.before[second.node] >> first.node & 1:
                    continue
                kind = ("R" if not second.is_write else "W") + "A"
                kind += "W" if first.is_write else "R"
                domain = "host" if first.on_host or second.on_host else "device"
                if first.block.serial != second.block.serial:
                    domain = "reuse"
                pair = Pair(kind, domain, first.label, second.label)
                by_nccl = self.before9[second.node] >> first.node & 1
                (ordered if by_nccl else races).add(pair)
        return races, ordered
