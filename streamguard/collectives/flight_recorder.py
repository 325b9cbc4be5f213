"""Dumps of PyTorch's NCCL Flight Recorder as ranks' views, and what they can and cannot show."""

from __future__ import annotations

import ast
import hashlib
import io
import pickle
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from streamguard.collectives.desync import Verdict, Wait, judge
from streamguard.collectives.verdict_text import ranks_text
from streamguard.collectives.views import Call, Stream, View
from streamguard.errors import DumpError

_RANK_IN_NAME = re.compile(r"(\d+)$")


class _PlainUnpickler(pickle.Unpickler):
    """Admits dicts, lists, tuples, strings, numbers and None; names what it refuses.

    Those are built by opcodes alone. Whatever else a pickle can do begins with naming a global.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(data))
        self._path = path

    def find_class(self, module_name: str, global_name: str) -> object:
        """Refuse every global."""
        raise DumpError(str(self._path), f"names {module_name}.{global_name}, which is refused")

    def persistent_load(self, pid: object) -> object:
        """Refuse references to outside objects."""
        raise DumpError(str(self._path), f"refers to the outside object {pid!r}, which is refused")


def load_plain(path: Path) -> object:
    """Read a pickle of plain containers, strings and numbers.

    Raises:
        DumpError: the file is damaged, or holds anything else.
    """
    try:
        return _PlainUnpickler(path.read_bytes(), path).load()
    except DumpError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise DumpError(str(path), f"is no readable dump ({error})") from error


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
            str(config["name"]): (str(config["desc"]), tuple(ast.literal_eval(config["ranks"])))
            for config in content.get("pg_config", {}).values()
        }
        entries = tuple(_entry(entry) for entry in content["entries"])
        names = {int(e["pg_id"]): str(e["process_group"][0]) for e in content["entries"]}
        status = content.get("pg_status", {})
        enqueued, completed = (
            {
                names[int(number)]: int(value[which])
                for number, value in status.items()
                if int(number) in names
            }
            for which in ("last_enqueued_collective", "last_completed_collective")
        )
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise DumpError(
            str(path), f"is no Flight Recorder dump that is understood: {error}"
        ) from error
    return Dump(int(found[1]), groups, entries, enqueued, completed)


def _entry(raw: dict[str, object]) -> Entry:
    group = raw["process_group"]
    assert isinstance(group, (tuple, list))
    op = str(raw["profiling_name"]).removeprefix("nccl:")
    is_message = bool(raw["is_p2p"])
    peer, sender = -1, False
    found = re.fullmatch(r"(send|recv) (\d+)(->|<-)(\d+)", op)
    if is_message and found is not None:
        sender, peer, op = found[1] == "send", int(found[4]), found[1]
    frames = raw.get("frames", [])
    return Entry(
        str(group[0]), str(group[1]), op,
        int(raw["p2p_seq_id"] if is_message else raw["collective_seq_id"]),  # type: ignore[call-overload]
        is_message, str(raw["state"]), _sizes(raw["input_sizes"]), _sizes(raw["output_sizes"]),
        tuple(raw["input_dtypes"]),  # type: ignore[arg-type]
        tuple(f"{f['filename']}:{f['line']} in {f['name']}" for f in frames),  # type: ignore[attr-defined]
        peer, sender,
    )  # fmt: skip


def _sizes(raw: object) -> tuple[tuple[int, ...], ...]:
    assert isinstance(raw, (list, tuple))
    return tuple(tuple(int(n) for n in size) for size in raw)


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
