"""Which gradients of a round have arrived, which wait for a slot, which bucket comes next.

Pure bookkeeping: it issues no work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamguard.errors import UsageError
from streamguard.zero.layout import Bucket, Layout, Piece

if TYPE_CHECKING:
    from torch.cuda import Stream


@dataclass(frozen=True, slots=True)
class Write:
    """A piece of a gradient that can go into its bucket now.

    Attributes:
        bucket: The bucket.
        piece: Which part of which parameter.
        stream: Stream to write on: the one that the gradient is ready on.
        is_zero: There is no gradient; the piece is to be zero.
        adds: The bucket holds the sum of earlier rounds.
        is_last: No other piece of the parameter is waiting.
    """

    bucket: Bucket
    piece: Piece
    stream: Stream
    is_zero: bool
    adds: bool
    is_last: bool


class Arrivals:
    """State of one round after the other.

    Invariants: 1. buckets are taken in order. 2. a piece waits only while its bucket is beyond the
    window. 3. a bucket is full once each of its pieces was written in this round or holds the sum
    of earlier ones.
    Cost: constant for each piece that arrives in order.

    Args:
        layout: The layout.
    """

    def __init__(self, layout: Layout) -> None:
        self.is_open = False
        self.next = 0
        self._layout = layout
        self._pieces = [layout.pieces_of(index) for index in range(len(layout.parameters))]
        self._arrived: set[int] = set()
        self._held: set[int] = set()  # parameters with sums of earlier rounds in their buckets
        self._waiting: dict[int, list[tuple[Piece, Stream, bool]]] = {}
        self._unwritten_pieces: dict[int, int] = {}
        self._unfilled = [0] * len(layout.buckets)

    @property
    def holds_sums(self) -> bool:
        """Whether rounds without a reduction have left sums in the buckets."""
        return bool(self._held)

    def open(self) -> None:
        """Begin a round."""
        self.is_open = True
        self.next = 0
        self._arrived = set()
        self._unfilled = [len(bucket.pieces) for bucket in self._layout.buckets]

    def note(self, parameter: int, stream: Stream) -> None:
        """Note that a gradient is ready on `stream`.

        Raises:
            UsageError: it is the parameter's second one in this round.
        """
        if parameter in self._arrived:
            raise UsageError(
                f"a second gradient of parameter {parameter} arrived in one backward; with "
                "activation checkpointing use use_reentrant=False"
            )
        self._await(parameter, stream, is_zero=False)

    def note_absent(self, parameters: Iterable[int], stream: Stream) -> None:
        """Note that these get no gradient, unless they have: zeros, written on `stream`."""
        for parameter in parameters:
            pieces = self._pieces[parameter]
            if parameter in self._arrived:
                continue
            if parameter not in self._held:
                self._await(parameter, stream, is_zero=True)
                continue
            self._arrived.add(parameter)
            for bucket, _ in pieces:
                self._unfilled[bucket.index] -= 1

    def writes(self, window: int) -> Iterator[Write]:
        """Take every piece whose bucket is among the `window` next ones; it counts as written."""
        limit = self.next + window
        for index in [index for index in self._waiting if index < limit]:
            for piece, stream, is_zero in self._waiting.pop(index):
                self._unwritten_pieces[piece.parameter] -= 1
                self._unfilled[index] -= 1
                yield Write(
                    self._layout.buckets[index],
                    piece,
                    stream,
                    is_zero,
                    adds=piece.parameter in self._held,
                    is_last=self._unwritten_pieces[piece.parameter] == 0,
                )

    def take_full(self) -> Bucket | None:
        """Take the next bucket if it is full."""
        if self.next == len(self._unfilled) or self._unfilled[self.next] > 0:
            return None
        bucket = self._layout.buckets[self.next]
        self.next += 1
        return bucket

    def waiting(self) -> set[int]:
        """Parameters whose gradients wait for a slot."""
        return {
            piece.parameter
            for pieces in self._waiting.values()
            for piece, _, is_zero in pieces
            if not is_zero
        }

    def is_missing(self, parameter: int) -> bool:
        """Whether a parameter has neither arrived nor been noted as absent."""
        return parameter not in self._arrived

    def close(self, *, keeps_sums: bool) -> None:
        """End the round; with `keeps_sums` what was written stays in the buckets."""
        self.is_open = False
        self._held = self._held | self._arrived if keeps_sums else set()
        self._waiting = {}
        self._unwritten_pieces = {}

    def _await(self, parameter: int, stream: Stream, *, is_zero: bool) -> None:
        self._arrived.add(parameter)
        self._unwritten_pieces[parameter] = len(self._pieces[parameter])
        for bucket, piece in self._pieces[parameter]:
            self._waiting.setdefault(bucket.index, []).append((piece, stream, is_zero))
