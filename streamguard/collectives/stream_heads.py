"""What NCCL's streams have before them while a rank waits: PyTorch's Flight Recorder knows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from itertools import groupby

from streamguard.collectives.interruption import stack_lines
from streamguard.collectives.nccl_times import Entry, dump_of_torch, group_name
from streamguard.collectives.record import Group

_STATES = {"started": "runs", "scheduled": "waits to run"}


def place_lines(groups: Mapping[int, Group]) -> list[str]:
    """Where this process is: its NCCL streams, then its threads."""
    names = {group.key.partition("#")[0]: group.name for group in groups.values()}
    heads: list[str] = []
    with contextlib.suppress(Exception):  # what torch's recorder says is a help, never a fault
        heads = stream_head_lines(names)
    return [*heads, *stack_lines()]


def stream_head_lines(
    names: Mapping[str, str], dump: Callable[[], str | bytes] | None = None
) -> list[str]:
    """Say of each group which call its stream runs or waits to run, and how many are behind it.

    Args:
        names: What reports call a group, by the name that torch gives it.
        dump: The Flight Recorder's entries as JSON; by default torch's own of this process.

    Returns:
        One line per group with calls that have not completed; none without NCCL, or where the
        Flight Recorder is off.
    """
    entries = json.loads((dump or dump_of_torch)()).get("entries", [])
    waiting = [entry for entry in entries if entry["state"] in _STATES and not entry["retired"]]
    lines = []
    for name, calls in groupby(sorted(waiting, key=_order), key=group_name):
        head, *others = calls
        behind = f", {len(others)} behind it" if others else ""
        op = str(head["profiling_name"]).removeprefix("nccl:")
        lines.append(
            f"NCCL stream of {names.get(name, name)}: {_STATES[head['state']]} {op}{behind}"
        )
    return lines


def _order(entry: Entry) -> tuple[str, int]:
    number = entry["record_id"]
    return group_name(entry), number if isinstance(number, int) else 0
