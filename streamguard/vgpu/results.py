"""Results that a program names, so that the same program can be compared between schedules.

`result("loss", loss)` keeps the exact bytes. Without an exploration it does nothing.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard.errors import UsageError
from streamguard.identity import environment_rank, process_group

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class NamedResult:
    """One value at one moment.

    Attributes:
        name: As the program gave it; parts of containers as `name.key` and `name[0]`.
        occurrence: 0 for the first value of this name, 1 for the second.
        dtype: `float32`, as torch calls it.
        shape: Sizes of the tensor; () for a number.
        data: The elements' bytes, contiguous.
    """

    name: str
    occurrence: int
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def key(self) -> tuple[str, int]:
        """What is compared between schedules under the same key."""
        return self.name, self.occurrence


@dataclass(frozen=True, slots=True)
class RankResults:
    """What one rank named under one schedule.

    Attributes:
        rank: The rank.
        results: In the order in which the program named them.
        schedule: Token of the schedule.
        streams: Streams that the rank used.
        rescues: Times work ran only because the process slept: the order was not the token's.
    """

    rank: int
    results: tuple[NamedResult, ...]
    schedule: str
    streams: int
    rescues: int


class Collector:
    """Keeps named results; `sink` gets each one when it is named."""

    def __init__(self, sink: Callable[[NamedResult], None]) -> None:
        self._sink = sink
        self._seen: dict[str, int] = {}

    def add(self, name: str, value: object) -> None:
        """Keep a value; containers give one result for each part."""
        for part, tensor in _parts(name, value):
            occurrence = self._seen.get(part, 0)
            self._seen[part] = occurrence + 1
            self._sink(_named(part, occurrence, tensor))


_collector: Collector | None = None
_file: _ResultFile | None = None


def result(name: str, value: object) -> None:
    """Name a value that must be the same under every schedule.

    Reads tensors as `.cpu()` does: it waits for the current stream and for nothing else, so a
    missing wait before it shows. Outside an exploration it does nothing.

    Args:
        name: The same under every schedule. Naming it again makes a further value.
        value: A tensor, a number, a module's state or any nesting of mappings, lists and tuples.

    Raises:
        UsageError: the value is something else.
    """
    collector = _collector or _environment_collector()
    if collector is not None:
        collector.add(name, value)


def collect_into(sink: Callable[[NamedResult], None] | None) -> None:
    """Send the results that this process names to `sink`, or nowhere."""
    global _collector
    _collector = None if sink is None else Collector(sink)


def read_results(directory: Path) -> tuple[RankResults, ...]:
    """Read what the ranks of one run wrote, by rank.

    Raises:
        UsageError: two processes called themselves the same rank, or one did not end well.
    """
    ranks: dict[int, RankResults] = {}
    for path in sorted(directory.glob("rank-*.jsonl")):
        read = _read_file(path)
        if read.rank in ranks:
            raise UsageError(f"two processes named results as rank {read.rank}: {directory}")
        ranks[read.rank] = read
    return tuple(ranks[rank] for rank in sorted(ranks))


class _ResultFile:
    """This rank's results on disk, one JSON line each, and a line that says how the run was."""

    def __init__(self, directory: Path) -> None:
        group = process_group()
        self.pid = os.getpid()
        self._rank = group[0] if group is not None else environment_rank(os.environ)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"rank-{self._rank}-{self.pid}.jsonl"
        self._file = path.open("w", encoding="utf-8")
        self.collector = Collector(self._write)

    def _write(self, one: NamedResult) -> None:
        record = {
            "name": one.name,
            "occurrence": one.occurrence,
            "dtype": one.dtype,
            "shape": one.shape,
            "data": base64.b64encode(one.data).decode(),
        }
        self._file.write(json.dumps(record) + "\n")

    def finish(self) -> None:
        """Write the last line; a file without it is of a process that was killed."""
        from streamguard.vgpu.description import describe
        from streamguard.vgpu.schedules import streams_used

        if os.getpid() != self.pid:
            return
        end = {
            "rank": self._rank,
            "schedule": describe().schedule,
            "streams": streams_used(),
            "rescues": describe().rescues,
        }
        self._file.write(json.dumps(end) + "\n")
        self._file.close()


def _environment_collector() -> Collector | None:
    global _file
    directory = os.environ.get("STREAMGUARD_VGPU_RESULTS")
    if not directory:
        return None
    if _file is None or _file.pid != os.getpid():
        _file = _ResultFile(Path(directory))
        atexit.register(_file.finish)
    return _file.collector


def _read_file(path: Path) -> RankResults:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not records or "streams" not in records[-1]:
        raise UsageError(f"the process that wrote {path.name} did not end: its results are cut off")
    end = records.pop()
    results = tuple(
        NamedResult(
            name=record["name"],
            occurrence=record["occurrence"],
            dtype=record["dtype"],
            shape=tuple(record["shape"]),
            data=base64.b64decode(record["data"]),
        )
        for record in records
    )
    return RankResults(end["rank"], results, end["schedule"], end["streams"], end["rescues"])


def _parts(name: str, value: object) -> Iterable[tuple[str, torch.Tensor]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, bool | int | float | complex):
        yield name, torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
    elif isinstance(value, torch.nn.Module):
        yield from _parts(name, value.state_dict())
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _parts(f"{name}.{key}", part)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _parts(f"{name}[{index}]", part)
    else:
        raise UsageError(
            f"result {name!r} is a {type(value).__name__}; give a tensor, a number, a module or a "
            "container of these"
        )


def _named(name: str, occurrence: int, tensor: torch.Tensor) -> NamedResult:
    import torch

    host = tensor.detach().cpu().contiguous()
    data = host.reshape(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b""
    dtype = str(host.dtype).removeprefix("torch.")
    return NamedResult(name, occurrence, dtype, tuple(host.shape), data)
