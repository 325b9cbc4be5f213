"""Which rank reads what the others called, and who goes on when it ends or dies."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from streamguard.collectives.exchange import Store
from streamguard.collectives.overseer import SILENT_AFTER_S, is_alive

# Ranks that end one after the other take over at most so often: traffic stays O(ranks).
MAX_LATE_EPOCHS = 16


class Succession:
    """One rank's knowledge of the reader. Every reader begins an epoch; rank 0 has the first.

    Args:
        store: The ranks' side channel.
        rank: Own rank.
        host: Processes on this host can be asked whether they live.
    """

    def __init__(self, store: Store, rank: int, host: str) -> None:
        self._store = store
        self._rank = rank
        self._host = host
        self._heard: tuple[object, float] = (None, time.monotonic())
        self.epoch = 0
        self.reader = 0

    def has_changed(self, *, may_take_over: bool) -> bool:
        """Whether somebody else reads from now on; this rank takes over where nobody does."""
        if self._store.check([f"epoch/{self.epoch + 1}"]):
            return self._follow(self._store.get(f"epoch/{self.epoch + 1}"))
        state = self._state()
        if state is None or not may_take_over:
            return False
        now = time.monotonic()
        if state["beat"] != self._heard[0]:
            self._heard = state["beat"], now
        if not state["ended"] and now - self._heard[1] <= SILENT_AFTER_S:
            return False
        return self._take_over()

    def take_over_at_end(self, made: Mapping[str, int]) -> bool:
        """Whether this rank, which ends, must compare: nobody reads and its calls are not compared.

        Args:
            made: How many collectives it has made, by group.
        """
        while self.epoch < MAX_LATE_EPOCHS:
            if self._store.check([f"epoch/{self.epoch + 1}"]):
                self._follow(self._store.get(f"epoch/{self.epoch + 1}"))
                continue
            state = self._state()
            if state is None:
                return False
            is_here = state["host"] == self._host
            is_gone = bool(state["ended"]) or (is_here and not is_alive(int(str(state["pid"]))))
            if not is_gone or all(self._agreed().get(key, 0) >= n for key, n in made.items()):
                return False
            self._take_over()
            if self.reader == self._rank:
                return True
        return False

    def note_agreed(self, agreed: Mapping[str, int]) -> None:
        """Let those that end later know what needs no comparison any more."""
        self._store.set(f"agreed/{self.epoch}", json.dumps(dict(agreed)).encode())

    def _agreed(self) -> dict[str, int]:
        key = f"agreed/{self.epoch}"
        return dict(json.loads(self._store.get(key))) if self._store.check([key]) else {}

    def _state(self) -> dict[str, object] | None:
        key = f"s/{self.reader}"
        return dict(json.loads(self._store.get(key))) if self._store.check([key]) else None

    def _take_over(self) -> bool:
        # Whoever comes first reads from now on.
        key = f"epoch/{self.epoch + 1}"
        return self._follow(self._store.compare_set(key, "", str(self._rank)))

    def _follow(self, reader: bytes) -> bool:
        self.epoch += 1
        self.reader = int(reader)
        self._heard = None, time.monotonic()
        return True
