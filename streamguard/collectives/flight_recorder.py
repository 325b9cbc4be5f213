"""Dumps of PyTorch's NCCL Flight Recorder as ranks' views, and what they can and cannot show."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from streamguard.collectives.desync import Verdict, Wait, judge
from streamguard.collectives.plain_pickle import load_plain
from streamguard.collectives.verdict_text import ranks_text
from streamguard.collectives.views import Call, Stream, View
from streamguard.errors import DumpError

_RANK_IN_NAME = re.compile(r"(\d+)$")
_RANKS = re.compile(r"[\[(][\d, ]*[\])]")
# The recorder keeps some thousand calls; numbers further apart than this come from no recorder.
_MOST_SEQUENCES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded call."""

    group: str
    name: str
    op: str
    sequence: int
    is_message: bool
    state: str
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    frames: tuple[str, ...]
    peer: int = -1
    sender: bool = False


@dataclass(frozen=True, slots=True)
class Dump:
    """What one rank dumped."""

    rank: int
    groups: dict[str, tuple[str, tuple[int, ...]]]
    entries: tuple[Entry, ...]
    enqueued: dict[str, int] = field(default_factory=dict)
    completed: dict[str, int] = field(default_factory=dict)


def dumps_of(paths: Iterable[Path]) -> list[Path]:
    """The dump files among files and directories: their names end with the rank."""
    found: list[Path] = []
    for path in paths:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found += [f for f in files if f.is_file() and _RANK_IN_NAME.search(f.name)]
    return found


def read_dumps(paths: Iterable[Path]) -> list[Dump]:
    """Read one dump for each rank; the rank is the number at the end of the file's name.

    Raises:
        DumpError: a file is damaged, holds what is not admitted, or is no dump.
    """
    return sorted((_read(path) for path in paths), key=lambda dump: dump.rank)


def _read(path: Path) -> Dump:
    content = load_plain(path)
    found = _RANK_IN_NAME.search(path.name)
    if not isinstance(content, dict) or "entries" not in content or found is None:
        raise DumpError(str(path), "is no Flight Recorder dump: it has no `entries`")
    try:
        groups = {
            _text(config["name"]): (_text(config["desc"]), _ranks(config["ranks"]))
            for config in _dict(content.get("pg_config", {})).values()
        }
        entries = tuple(_entry(entry) for entry in content["entries"])
        _check_sequences(entries)
        names = {_number(e["pg_id"]): _text(e["process_group"][0]) for e in content["entries"]}
        status = _dict(content.get("pg_status", {}))
        enqueued, completed = (
            {
                names[int(str(number))]: _number(value[which])
                for number, value in status.items()
                if int(str(number)) in names
            }
            for which in ("last_enqueued_collective", "last_completed_collective")
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DumpError(
            str(path), f"is no Flight Recorder dump that is understood: {error}"
        ) from error
    return Dump(int(found[1]), groups, entries, enqueued, completed)


def _entry(raw: dict[str, object]) -> Entry:
    group = raw["process_group"]
    if not isinstance(group, (tuple, list)):
        raise ValueError(f"{type(group).__name__} where a group is expected")
    op = _text(raw["profiling_name"]).removeprefix("nccl:")
    is_message = bool(raw["is_p2p"])
    peer, sender = -1, False
    found = re.fullmatch(r"(send|recv) (\d+)(->|<-)(\d+)", op)
    if is_message and found is not None:
        sender, peer, op = found[1] == "send", int(found[4]), found[1]
    return Entry(
        _text(group[0]), _text(group[1]), op,
        _number(raw["p2p_seq_id" if is_message else "collective_seq_id"]),
        is_message, _text(raw["state"]), _sizes(raw["input_sizes"]), _sizes(raw["output_sizes"]),
        tuple(_text(dtype) for dtype in raw["input_dtypes"]),  # type: ignore[attr-defined]
        tuple(
            f"{_text(f['filename'])}:{_number(f['line'])} in {_text(f['name'])}"
            for f in raw.get("frames", [])  # type: ignore[attr-defined]
        ),
        peer, sender,
    )  # fmt: skip


def _sizes(raw: object) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(_number(n) for n in size) for size in raw)  # type: ignore[attr-defined]


def _ranks(raw: object) -> tuple[int, ...]:
    text = _text(raw)
    if _RANKS.fullmatch(text) is None:
        raise ValueError(f"{text[:80]!r} is no list of ranks")
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _check_sequences(entries: Iterable[Entry]) -> None:
    bounds: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if not entry.is_message:
            first, last = bounds.get(entry.group, (entry.sequence, entry.sequence))
            bounds[entry.group] = min(first, entry.sequence), max(last, entry.sequence)
    for group, (first, last) in bounds.items():
        if last - first >= _MOST_SEQUENCES:
            raise ValueError(f"the calls of group {group} are numbered from {first} to {last}")


# Whatever comes out of a pickle may hold itself a thousand times: it is never turned into text.
def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"{type(raw).__name__} where a text is expected")
    return raw


def _number(raw: object) -> int:
    if not isinstance(raw, int):
        raise ValueError(f"{type(raw).__name__} where a number is expected")
    return raw


def _dict(raw: object) -> dict[object, dict[str, object]]:
    if not isinstance(raw, dict):
        raise ValueError(f"{type(raw).__name__} where a dict is expected")
    return raw


def views_of(dumps: Sequence[Dump]) -> dict[int, View]:
    """The ranks as their dumps show them."""
    return {dump.rank: _view(dump) for dump in dumps}


def _fingerprint(entry: Entry) -> int:
    uneven = entry.op in ("all_to_all", "all_to_allv", "gather", "scatter")
    content = repr((entry.op, entry.dtypes, () if uneven else entry.input_sizes))
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "big")


def _call(entry: Entry) -> Call:
    sizes = " ".join(str(list(size)) for size in entry.input_sizes)
    dtypes = ",".join(dict.fromkeys(entry.dtypes)).lower()
    what = f"{entry.op} {dtypes} {sizes}".strip()
    if entry.peer >= 0:
        what += f" {'to' if entry.sender else 'from'} {entry.peer}"
    place = entry.frames[0] if entry.frames else "the dump has no stacks"
    message = f"{dtypes} {sizes}" if entry.is_message else ""
    return Call(entry.op, what, place, "", _fingerprint(entry), 0, entry.peer, 0, message)


def _view(dump: Dump) -> View:
    view = View(dump.rank, "stopped")
    calls: dict[tuple[str, int], Call] = {}
    by_group: dict[str, list[Entry]] = {}
    for key, (name, ranks) in dump.groups.items():
        view.members[key], view.names[key] = ranks, name
    for entry in dump.entries:
        if entry.is_message:
            view.messages.append((entry.group, _call(entry)))
        else:
            by_group.setdefault(entry.group, []).append(entry)
    for key, entries in by_group.items():
        entries.sort(key=lambda entry: entry.sequence)
        # Entries of one sequence number are the parts of a coalesced call.
        unique = {entry.sequence: entry for entry in entries}
        first, last = min(unique), max(unique)
        numbers = np.array(
            [_fingerprint(unique[s]) if s in unique else 0 for s in range(first, last + 1)],
            np.uint64,
        )
        view.streams[key] = Stream(first, numbers)
        calls.update({(key, s): _call(entry) for s, entry in unique.items()})
    view.call = lambda key, position: calls.get((key, position))
    view.completed = dump.completed
    newest = [e for e in dump.entries if not e.is_message]
    view.newest = (newest[-1].group, newest[-1].sequence) if newest else None
    return view


def judge_dumps(dumps: Sequence[Dump], views: dict[int, View]) -> Verdict:
    """The verdict over dumps.

    A rank whose dump is empty, or that is behind its groups while everybody else waits in a
    collective that it has not begun, is where the fault shows.
    """
    groups = {key: ranks for dump in dumps for key, (_, ranks) in dump.groups.items()}
    known = {key: tuple(r for r in ranks if r in views) for key, ranks in groups.items()}
    empty = tuple(d.rank for d in dumps if not d.entries)
    pending = _pending_waits(views, dumps, known, empty)
    if empty and pending:
        first = max(pending, key=lambda wait: wait.position)
        return Verdict("dead", empty, pending, first.key, first.position)
    behind = _behind_in_completion(dumps, known)
    if behind:
        waits = tuple(wait for wait, _ in behind.values())
        for rank, (_, remark) in behind.items():
            views[rank].remark = remark
        return Verdict("stuck", tuple(sorted(behind)), waits, waits[0].key, waits[0].position)
    return judge({rank: view for rank, view in views.items() if rank not in empty})


def _behind_in_completion(
    dumps: Sequence[Dump], groups: dict[str, tuple[int, ...]]
) -> dict[int, tuple[Wait, str]]:
    """Ranks on which a collective is pending that another member has completed."""
    by_rank = {dump.rank: dump for dump in dumps}
    found: dict[int, tuple[Wait, str]] = {}
    for dump in dumps:
        for entry in dump.entries:
            if entry.state == "completed" or entry.is_message or dump.rank in found:
                continue
            others = [r for r in groups.get(entry.group, ()) if r != dump.rank]
            ahead = tuple(
                r for r in others if by_rank[r].completed.get(entry.group, -1) >= entry.sequence
            )
            if ahead:
                call = _call(entry)
                wait = Wait(dump.rank, entry.group, entry.sequence, call, ahead)
                found[dump.rank] = (
                    wait,
                    (
                        f"{call.what} #{entry.sequence} of {entry.name} is pending; "
                        f"{ranks_text(ahead)} completed it"
                    ),
                )
    return found


def _pending_waits(
    views: dict[int, View],
    dumps: Sequence[Dump],
    groups: dict[str, tuple[int, ...]],
    empty: Sequence[int],
) -> tuple[Wait, ...]:
    waits = []
    for dump in dumps:
        for entry in dump.entries:
            if entry.state == "completed" or entry.is_message:
                continue
            missing = tuple(r for r in groups.get(entry.group, ()) if r in empty)
            if missing:
                waits.append(Wait(dump.rank, entry.group, entry.sequence, _call(entry), missing))
                break
    return tuple(waits)


def notes_of(dumps: Sequence[Dump], verdict: Verdict) -> list[str]:
    """What these dumps cannot show."""
    notes = []
    if not any(entry.frames for dump in dumps for entry in dump.entries):
        notes.append("the dumps hold no Python stacks: the calls have no lines")
    ranks = {dump.rank for dump in dumps}
    members = {r for dump in dumps for _, group in dump.groups.values() for r in group}
    if members - ranks:
        notes.append(f"no dump of {ranks_text(members - ranks)}")
    return notes
