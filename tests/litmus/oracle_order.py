"""Nodes and edges of the oracle: rules 1, 2, 5 and 9."""

from __future__ import annotations


class OrderGraph:
    """Events as nodes; what is before a node is a bit mask."""

    def __init__(self) -> None:
        self.before: list[int] = []  # node -> nodes before it, by rules 1 to 8
        self.before9: list[int] = []  # the same with rule 9
        self.host: dict[str, list[int]] = {}  # thread -> newest node
        self.streams: dict[str, int] = {}
        self.last: list[list[int]] = []  # stream -> newest node
        self.flags: list[tuple[str, int]] = []  # stream -> kind, device
        self.comm_node: dict[str, int] = {}

    def node(self, preds: list[int], preds9: list[int] | None = None) -> int:
        """Add a node after `preds`; `preds9` hold by rule 9 only."""
        mask = mask9 = 0
        for pred in preds:
            mask |= self.before[pred] | 1 << pred
            mask9 |= self.before9[pred] | 1 << pred
        for pred in preds9 or []:
            mask9 |= self.before9[pred] | 1 << pred
        self.before.append(mask)
        self.before9.append(mask9)
        return len(self.before) - 1

    def host_node(self, thread: str, preds: list[int]) -> int:
        """Rule 2: program order of the thread."""
        added = self.node(self.host.get(thread, []) + preds)
        self.host[thread] = [added]
        return added

    def stream(self, name: str) -> int:
        """Find or create a stream."""
        if name not in self.streams:
            self.create(name, "legacy" if name == "s0" else "nonblocking", 0)
        return self.streams[name]

    def create(self, name: str, kind: str, device: int) -> None:
        """Declare a stream; the legacy stream of a device is one."""
        if kind == "legacy" and ("legacy", device) in self.flags:
            self.streams[name] = self.flags.index(("legacy", device))
            return
        self.streams[name] = len(self.last)
        self.last.append([])
        self.flags.append((kind, device))

    def blocking_work(self, device: int) -> list[int]:
        """Newest nodes of the blocking streams of a device."""
        return [
            node
            for stream, flags in enumerate(self.flags)
            if flags == ("blocking", device)
            for node in self.last[stream]
        ]

    def start(self, thread: str, stream: int) -> list[int]:
        """What an op that is issued now on `stream` comes after: rules 1, 2 and 5."""
        preds = self.host.get(thread, []) + self.last[stream]
        kind, device = self.flags[stream]
        if kind == "legacy":
            preds = preds + self.blocking_work(device)
        if kind == "blocking" and ("legacy", device) in self.flags:
            preds = preds + self.last[self.flags.index(("legacy", device))]
        return preds

    def device_node(self, thread: str, stream: int, *more: int, comm: str | None = None) -> int:
        """Add an op of a stream."""
        preds9 = [self.comm_node[comm]] if comm in self.comm_node else []
        added = self.node(self.start(thread, stream) + list(more), preds9)
        self.last[stream] = [added]
        if comm is not None:
            self.comm_node[comm] = added
        return added
