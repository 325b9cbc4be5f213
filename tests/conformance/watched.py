"""What the runtime's own log says was called, against what the hooks say they saw of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from streamguard.hooks.interposer import preloading

PRELOADED = preloading({})

_KINDS = {
    "launch": "launches",
    "copy": "copies",
    "fill": "copies",
    "record": "records",
    "wait": "waits",
    "stream_sync": "syncs",
    "event_sync": "syncs",
    "device_sync": "syncs",
    "graph_launch": "graph replays",
}


def called(log: Iterable[str]) -> Counter[str]:
    """Count the calls of each kind in the virtual GPU's log."""
    counts: Counter[str] = Counter()
    for line in log:
        kind = _KINDS.get(line.split()[0])
        if kind is not None:
            counts[kind] += 1
    return counts


def seen(coverage: dict[str, Any]) -> Counter[str]:
    """Count the same kinds as the hooks saw them, with what they call opaque."""
    opaque = sum(n for what, n in coverage["opaque"].items() if "kernel" in what)
    return Counter(
        {
            "launches": coverage["launches"] + opaque,
            "copies": coverage["copies"] + coverage["raw_copies"],
            "records": coverage["records"],
            "waits": coverage["waits"],
            "syncs": coverage["syncs"],
            "graph replays": coverage["graph_replays"],
        }
    )


def difference(log: Iterable[str], coverage: dict[str, Any]) -> dict[str, int]:
    """Return the kinds whose counts differ: calls in the log, less those the hooks saw."""
    truth, told = called(log), seen(coverage)
    return {
        kind: truth[kind] - told[kind] for kind in sorted(truth | told) if truth[kind] != told[kind]
    }
