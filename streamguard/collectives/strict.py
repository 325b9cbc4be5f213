"""Compares each collective before it starts, through the Store: two round trips a rank.

Every rank adds its fingerprint to a sum; the last one to come sees whether the sum is that of equal
calls and lets all go. Traffic on the Store is O(ranks).
"""

from __future__ import annotations

import datetime
import threading
from collections import deque
from collections.abc import Callable

from streamguard.collectives.exchange import Store

_COUNT_BITS = 16
_KEPT_CALLS = 64  # more than threads that use one group at once
_FINGERPRINT_MASK = (1 << 30) - 1  # times 2**16 ranks and 2**16 counts it fits into 62 bits
_BALANCE_MASK = (1 << 44) - 1


class StrictCheck:
    """The check before launch of one rank.

    Args:
        connect: A Store connection of its own for each thread: a waiting call blocks it.
        wait_s: How long a rank waits for the others.
    """

    def __init__(self, connect: Callable[[], Store], *, wait_s: float) -> None:
        self._connect = connect
        self._wait_s = wait_s
        self._local = threading.local()
        self.garbage: list[str] = []
        self._done: dict[str, deque[tuple[str, ...]]] = {}

    def check(
        self,
        key: str,
        rank: int,
        size: int,
        fingerprint: int,
        balance: int,
        describe: Callable[[], str],
    ) -> tuple[bool, list[str]]:
        """Wait until all members of a group are about to make this call.

        Args:
            key: Names this call, the same on all members.
            rank: Own rank in the group, of `size`.
            describe: What this rank calls, and where; asked for only if it differs.

        Returns:
            Whether all came, and the members' descriptions if they differ.
        """
        store = self._store()
        own = fingerprint & _FINGERPRINT_MASK
        if balance:
            store.add(key + "/b", balance & _BALANCE_MASK)
        total = store.add(key, (own << _COUNT_BITS) + 1)
        if total & ((1 << _COUNT_BITS) - 1) == size:
            is_equal = total >> _COUNT_BITS == own * size
            if is_equal and balance:
                is_equal = store.add(key + "/b", 0) & _BALANCE_MASK == 0
            store.set(key + "/g", b"1" if is_equal else b"0")
            self._discard_later(key, (key, key + "/g", *([key + "/b"] if balance else ())))
        else:
            try:
                is_equal = store.get(key + "/g") == b"1"
            except RuntimeError:
                return False, []
        if is_equal:
            return True, []
        store.set(f"{key}/d/{rank}", describe().encode())
        everybody = [f"{key}/d/{member}" for member in range(size)]
        try:
            return True, [raw.decode() for raw in store.multi_get(everybody)]
        except RuntimeError:
            return True, [describe()]

    def _discard_later(self, key: str, keys: tuple[str, ...]) -> None:
        """Keep the keys of the newest calls of a group: slower members still read them.

        A key that is deleted between a reader's wait and its get reads as empty. A member that
        has come to a later call of the group has read all earlier ones.
        """
        waiting = self._done.setdefault(key.rsplit("/", 1)[0], deque())
        waiting.append(keys)
        while len(waiting) > _KEPT_CALLS:
            self.garbage += waiting.popleft()

    def _store(self) -> Store:
        store: Store | None = getattr(self._local, "store", None)
        if store is None:
            store = self._local.store = self._connect()
            store.set_timeout(datetime.timedelta(seconds=self._wait_s))  # type: ignore[attr-defined]
        return store
