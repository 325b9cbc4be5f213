"""What the hooks call the memory that collectives work on."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping

# A name may cover a whole buffer of which a call takes a part; others may begin in between.
_LOOKED_AT = 8
_KEPT_NAMES = 4


class BufferNames:
    """Names of memory and since when they hold; the newest one that fits wins."""

    def __init__(self, notes: Iterable[Mapping[str, object]] = ()) -> None:
        self._begins: list[int] = []
        self._names: dict[int, list[tuple[int, int, str]]] = {}
        for note in notes:
            numbers = (int(str(note[key])) for key in ("begin", "end", "time_ns"))
            begin, end, time_ns = numbers
            self.add(begin, end, str(note["name"]), time_ns)

    def __bool__(self) -> bool:
        return bool(self._begins)

    def add(self, begin: int, end: int, name: str, time_ns: int) -> bool:
        """Bytes [begin, end) have this name from now on; False if they had it already."""
        names = self._names.get(begin)
        if names is None:
            names = self._names[begin] = []
            insort(self._begins, begin)
        if names and names[-1][1:] == (end, name):
            return False
        names.append((time_ns, end, name))
        del names[:-_KEPT_NAMES]
        return True

    def at(self, begin: int, size_bytes: int, time_ns: int) -> str:
        """What bytes [begin, begin + size_bytes) were called at a time; "" where nobody said."""
        index = bisect_right(self._begins, begin)
        fitting = [
            (given_ns, name)
            for first in self._begins[max(0, index - _LOOKED_AT) : index]
            for given_ns, end, name in self._names[first]
            if given_ns <= time_ns and begin + size_bytes <= end
        ]
        return max(fitting)[1] if fitting else ""
