"""Every order between streams that the reducer needs, in one place.

A bucket, the gradient shards and the parameters pass from stream to stream. `HandOver` holds the
events of these edges; nothing else in this package records or waits. None of its calls blocks the
host. `streamguard verify-reducer` deletes each edge in turn and shows that it is needed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch.cuda import Event, Stream


class Edge(enum.Enum):
    """An order between two streams, named after what has happened when it is handed over."""

    FILLED = "filled"
    """Producers of gradients, then the reduction that reads their bucket."""
    REDUCED = "reduced"
    """The reduction of a bucket, then every later producer into the same slot."""
    SHARDS_READY = "shards_ready"
    """The reductions, then the step that reads the gradient shards."""
    STEPPED = "stepped"
    """The step, then the all-gather that reads the new parameters and overwrites the old ones."""
    GATHERED = "gathered"
    """The all-gather of a bucket, then whatever reads its parameters."""


class HandOver:
    """Events between the producers, the communication stream and the stream of the step.

    Thread safety: none; the autograd thread and the main thread call it one after the other.
    Invariants: 1. a slot is written only after its last reduction, by every writer.
    2. a reduction reads only after all writers of its slot. 3. each event is recorded and waited
    for here only.
    Cost: one record per write; one wait per (slot use, producer) and per (bucket, reading stream).

    Args:
        communication_stream: Runs all collectives on gradients and parameters.
        without: Leaves one edge out, for the proof that it is needed; never in production.
    """

    def __init__(self, communication_stream: Stream, *, without: Edge | None = None) -> None:
        self.communication_stream = communication_stream
        self._without = without
        # (slot, stream) -> recorded on that producer stream after its latest write into the slot;
        # the communication stream waits for it before the reduction reads the slot.
        self._filled: dict[tuple[int, int], Event] = {}
        # slot -> producer streams that wrote since the slot's last reduction.
        self._writers: dict[int, dict[int, Stream]] = {}
        # slot -> recorded on the communication stream after the reduction and the copy into the
        # shard have read the slot; every producer waits for it before its first write afterwards.
        self._reduced: dict[int, Event] = {}
        # Recorded on the communication stream after the shards' latest change; the stream of the
        # step waits for it before it reads them.
        self._shards_ready: Event | None = None
        # Recorded on the stream of the step after it has read the shards and written the rank's
        # own parameters; the communication stream waits for it before the all-gather, and so
        # before the next change of the shards.
        self._stepped = _event()
        # bucket -> recorded on the communication stream after the bucket's all-gather; every
        # stream that reads the bucket's parameters waits for it once.
        self._gathered: dict[int, Event] = {}
        self._readers: dict[int, set[int]] = {}

    def before_write(self, slot: int, stream: Stream) -> None:
        """Let `stream` write into a slot, after the slot's last reduction."""
        writers = self._writers.setdefault(slot, {})
        if stream.cuda_stream in writers:
            return
        writers[stream.cuda_stream] = stream
        reduced = self._reduced.get(slot)
        if reduced is not None:
            self._wait(Edge.REDUCED, stream, reduced)

    def after_write(self, slot: int, stream: Stream) -> None:
        """Note that `stream` was given a write into a slot."""
        self._filled.setdefault((slot, stream.cuda_stream), _event()).record(stream)

    def before_reduce(self, slot: int) -> None:
        """Let the communication stream read a slot, after all its writers."""
        for key in self._writers.get(slot, {}):
            self._wait(Edge.FILLED, self.communication_stream, self._filled[slot, key])

    def after_reduce(self, slot: int) -> None:
        """Note that the communication stream was given the reduction of a slot."""
        self._reduced.setdefault(slot, _event()).record(self.communication_stream)
        self._writers[slot] = {}

    def forget_slots(self) -> None:
        """Drop what all slots hold: later producers come after all earlier writes into them."""
        for slot in [slot for slot, writers in self._writers.items() if writers]:
            self.before_reduce(slot)
            self.after_reduce(slot)

    def after_round(self) -> None:
        """Note that the communication stream was given all reductions of a backward."""
        if self._shards_ready is None:
            self._shards_ready = _event()
        self._shards_ready.record(self.communication_stream)

    def before_step(self, stream: Stream) -> None:
        """Let `stream` read the shards."""
        if self._shards_ready is not None:
            self._wait(Edge.SHARDS_READY, stream, self._shards_ready)

    def after_step(self, stream: Stream) -> None:
        """Let the communication stream go on after the step, or after a step that was skipped."""
        self._stepped.record(stream)
        self._wait(Edge.STEPPED, self.communication_stream, self._stepped)

    def after_gather(self, bucket: int) -> None:
        """Note that the communication stream was given the all-gather of a bucket."""
        self._gathered.setdefault(bucket, _event()).record(self.communication_stream)
        self._readers[bucket] = set()

    def before_read(self, buckets: Iterable[int], stream: Stream) -> None:
        """Let `stream` read the parameters in these buckets."""
        for bucket in buckets:
            readers = self._readers.get(bucket)
            if readers is not None and stream.cuda_stream not in readers:
                readers.add(stream.cuda_stream)
                self._wait(Edge.GATHERED, stream, self._gathered[bucket])

    def _wait(self, edge: Edge, stream: Stream, event: Event) -> None:
        if edge is not self._without:
            stream.wait_event(event)


def _event() -> Event:
    return torch.cuda.Event()
