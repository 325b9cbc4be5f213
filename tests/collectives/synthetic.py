"""Ranks that exist only as ring files, and a Store that counts what they ask of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from streamguard.collectives.buffer_names import BufferNames
from streamguard.collectives.record import HEADER_BYTES, MAGIC, OPS, RECORD, Group
from streamguard.collectives.watch import Watch
from streamguard.config import Config

CAPACITY = 4096
BUFFER = 0x7000  # of every call


@dataclass
class CountingStore:
    """A Store in this process; `operations` and `sizes_bytes` are counted by kind of call."""

    values: dict[str, bytes] = field(default_factory=dict)
    operations: Counter[str] = field(default_factory=Counter)
    sizes_bytes: Counter[str] = field(default_factory=Counter)

    def set(self, key: str, value: bytes) -> None:
        """As torch's."""
        self._count("set", 1, len(value))
        self.values[key] = value

    def get(self, key: str) -> bytes:
        """As torch's, but for keys that exist."""
        self._count("get", 1, len(self.values[key]))
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        """As torch's."""
        self._count("check", len(keys), 0)
        return all(key in self.values for key in keys)

    def add(self, key: str, amount: int) -> int:
        """As torch's."""
        total = int(self.values.get(key, b"0")) + amount
        self.values[key] = str(total).encode()
        self._count("add", 1, 8)
        return total

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """As torch's."""
        found = [self.values[key] for key in keys]
        self._count("get", len(keys), sum(map(len, found)))
        return found

    def delete_key(self, key: str) -> bool:
        """As torch's."""
        self._count("delete", 1, 0)
        return self.values.pop(key, None) is not None

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """As torch's: a key that does not exist is set where nothing is expected."""
        self._count("compare_set", 1, len(desired))
        if self.values.get(key, b"") == expected.encode():
            self.values[key] = desired.encode()
        return self.values[key]

    def _count(self, kind: str, operations: int, size_bytes: int) -> None:
        # Several keys in one request are work for the Store as well.
        self.operations[kind] += operations
        self.sizes_bytes[kind] += size_bytes


class SyntheticRank:
    """Stands where `Recording` stands: calls are written into the ring as the recorder does."""

    def __init__(self, rank: int, world_size: int, directory: Path, store: CountingStore) -> None:
        self.config = Config(collectives="async", run="synthetic", hang_after_s=3600)
        self.directory = directory
        self.rank, self.world_size = rank, world_size
        world = tuple(range(world_size))
        self.groups = {1: Group(1, "0", "default_pg", world, rank)}
        self.buffers = BufferNames()
        self.made: list[tuple[int, ...]] = []
        self.ring_path = directory / f"collectives-{rank}-{rank}.ring"
        header = np.zeros(HEADER_BYTES // 8, "<u8")
        header[0] = np.frombuffer(MAGIC, "<u8")[0]
        header[1] = CAPACITY
        self.ring_path.write_bytes(header.tobytes() + bytes(CAPACITY * RECORD.itemsize))
        self._next = np.memmap(self.ring_path, "<u8", "r+", offset=16, shape=(1,))
        self._records = np.memmap(
            self.ring_path, RECORD, "r+", offset=HEADER_BYTES, shape=(CAPACITY,)
        )
        self._sequence = 0
        self.watch = Watch(self, connect=lambda: store)  # type: ignore[arg-type]

    def frames(self, site: int) -> list[tuple[str, int, str]]:
        """A line for each site."""
        return [("train.py", site, "step")]

    def call(self, count: int, *, line: int = 20) -> None:
        """All_reduce `count` float32 numbers."""
        position = int(self._next[0])
        record = np.zeros(1, RECORD)[0]
        record["number"] = position + 1
        record["sequence"] = self._sequence
        record["fingerprint"] = count
        record["begin_ns"], record["buffer"] = 1000 + position, BUFFER
        record["input_count"] = record["output_count"] = count
        record["input_bytes"] = record["output_bytes"] = 4 * count
        record["group"], record["site"], record["peer"] = 1, line, -1
        record["op"], record["dtype"] = OPS.index("all_reduce"), 6
        self._records[position % CAPACITY] = record
        self._next[0] = position + 1
        self._sequence += 1
