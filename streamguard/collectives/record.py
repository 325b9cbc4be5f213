"""Ring files and the names that belong to them: how recorded collectives lie on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamguard.errors import CallRecordError

# csrc/collectives/record.h
RECORD = np.dtype(
    [
        ("number", "<u8"),
        ("begin_ns", "<u8"),
        ("end_ns", "<u8"),
        ("sequence", "<u8"),
        ("fingerprint", "<u8"),
        ("balance", "<u8"),
        ("input_count", "<i8"),
        ("output_count", "<i8"),
        ("input_bytes", "<i8"),
        ("output_bytes", "<i8"),
        ("buffer", "<u8"),
        ("stream", "<i8"),
        ("group", "<u4"),
        ("site", "<u4"),
        ("peer", "<i4"),
        ("tag", "<i4"),
        ("version", "<u4"),
        ("thread", "<u4"),
        ("op", "u1"),
        ("dtype", "u1"),
        ("reduce_op", "u1"),
        ("flags", "u1"),
        ("step", "<u4"),
        ("start_ns", "<u8"),
    ]
)
HEADER_BYTES = 128
MAGIC = b"SGCOLL02"

ASYNCHRONOUS, BACKWARD, UNEVEN, MUTABLE = 1, 2, 4, 8

# csrc/collectives/ops.h, with the names that torch.distributed gives its functions.
OPS = (
    "all_reduce",
    "all_reduce_coalesced",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_coalesced",
    "all_gather_into_tensor_coalesced",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "gather_into_tensor",
    "scatter",
    "send",
    "recv",
    "recv_any_source",
    "barrier",
    "monitored_barrier",
)
SEND, RECV, RECV_ANY = OPS.index("send"), OPS.index("recv"), OPS.index("recv_any_source")
MESSAGES = (SEND, RECV, RECV_ANY)
REDUCE_OPS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum")
# c10::ScalarType, by number.
DTYPES = (
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
    *("complex32", "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
    *("quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"),
    *("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"),
    *("uint16", "uint32", "uint64"),
)

Records = npt.NDArray[np.void]

# What notes of each kind must hold.
_NOTE_KEYS = {
    "name": ("name",),
    "scheme": ("name",),
    "unrecorded": ("calls",),
    "untimed": ("reason",),
}


def is_message(op: int) -> bool:
    """Whether an op has one sender and one receiver."""
    return op in MESSAGES


def dtype_name(number: int) -> str:
    """torch's name of a scalar type."""
    return DTYPES[number] if number < len(DTYPES) else "none" if number == 255 else f"type{number}"


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a Python stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as one rank knows it.

    Attributes:
        number: What this rank's records call it.
        key: Its name, the same on every member; later groups of the same name get `#2`, …
        name: What a report calls it: the description where there is one.
        ranks: Global ranks of the members, in group order.
        rank: The place of the recording rank among them.
    """

    number: int
    key: str
    name: str
    ranks: tuple[int, ...]
    rank: int


@dataclass(slots=True)
class RankLog:
    """Everything that one rank wrote.

    Attributes:
        rank: Global rank.
        started: When its process was given that rank, in seconds.
        restart: How often an elastic launcher had started the job again before.
        groups: By number.
        sites: Python frames by site number, innermost first.
        notes: Records of other kinds (scheme, plan, end), in order.
        records: The newest collectives, oldest first.
        lost: How many older ones the ring no longer holds.
    """

    rank: int
    world_size: int
    pid: int
    run: str = ""
    started: float = 0.0
    restart: str = ""
    groups: dict[int, Group] = field(default_factory=dict)
    sites: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    notes: list[dict[str, object]] = field(default_factory=list)
    records: Records = field(default_factory=lambda: np.empty(0, RECORD))
    lost: int = 0

    def names_of(self, begin: int, end: int) -> list[tuple[int, str]]:
        """Every name that the hooks gave bytes [begin, end), and when (ns); in order."""
        return [
            (_int(note["time_ns"]), str(note["name"]))
            for note in self.notes_of("name")
            if _int(note["begin"]) <= begin and end <= _int(note["end"])
        ]

    def notes_of(self, kind: str) -> list[dict[str, object]]:
        """The notes of one kind, in order."""
        return [note for note in self.notes if note["kind"] == kind]


class RingReader:
    """Reads the records of a ring file while another thread or process may be writing."""

    def __init__(self, path: Path) -> None:
        header = np.fromfile(path, "<u8", count=4)
        if len(header) < 4 or header[0].tobytes() != MAGIC:
            raise ValueError(f"{path}: no ring of collectives")
        self._capacity = int(header[1])
        if self._capacity == 0:
            raise ValueError("its ring has room for no call")
        self._next = np.memmap(path, "<u8", "r", offset=16, shape=(1,))
        self._records = np.memmap(path, RECORD, "r", offset=HEADER_BYTES, shape=(self._capacity,))

    def read(self, begin: int = 0) -> tuple[Records, int]:
        """The complete records from position `begin` on, and the position to go on from.

        A record that is still being written ends the answer; it comes with the next call.
        """
        end = int(self._next[0])
        first = max(begin, end - self._capacity)
        positions = np.arange(first, end, dtype=np.uint64)
        copy = self._records[positions % np.uint64(self._capacity)]
        wrong = np.flatnonzero(copy["number"] != positions + np.uint64(1))
        if len(wrong) == 0:
            return copy, end
        # What was overwritten meanwhile lies at the start, what is unfinished at the end.
        overwritten = int(np.searchsorted(copy["number"] > positions + np.uint64(1), False))
        whole = copy[overwritten:]
        unfinished = np.flatnonzero(whole["number"] != positions[overwritten:] + np.uint64(1))
        stop = int(unfinished[0]) if len(unfinished) else len(whole)
        return whole[:stop], first + overwritten + stop


def names_path(ring: Path) -> Path:
    """The names file of a ring file."""
    return ring.with_suffix(".names")


def read_log(ring: Path) -> RankLog:
    """Read what one rank left behind, also when it was killed while writing.

    Raises:
        CallRecordError: the files are damaged, or not what their names say.
    """
    try:
        log = _read_names(ring)
        log.records, end = RingReader(ring).read()
    except KeyError as error:
        raise CallRecordError(str(ring), f"a line of names has no {error}") from error
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError, OSError) as error:
        raise CallRecordError(str(ring), f"{str(error)[:200]}") from error
    if len(log.records) and int(log.records["op"].max()) >= len(OPS):
        raise CallRecordError(str(ring), f"there is no op {int(log.records['op'].max())}")
    log.lost = end - len(log.records)
    return log


def _read_names(ring: Path) -> RankLog:
    log: RankLog | None = None
    for entry in _entries(names_path(ring)):
        kind = entry["kind"]
        if kind == "start":
            log = RankLog(
                _int(entry["rank"]), _int(entry["world_size"]), _int(entry["pid"]),
                str(entry["run"]), float(str(entry.get("time", 0))), str(entry.get("restart", "")),
            )  # fmt: skip
        elif log is None:
            raise ValueError("its names do not begin with a start record")
        elif kind == "rank":
            log.rank, log.world_size = _int(entry["rank"]), _int(entry["world_size"])
        elif kind == "group":
            ranks = tuple(_int(rank) for rank in entry["ranks"])  # type: ignore[attr-defined]
            group = Group(
                _int(entry["number"]), str(entry["key"]), str(entry["name"]), ranks,
                _int(entry["rank"]),
            )  # fmt: skip
            if not 0 <= group.rank < len(ranks):
                raise ValueError(f"group {group.key} has {len(ranks)} members, no {group.rank}")
            log.groups[group.number] = group
        elif kind == "site":
            log.sites[_int(entry["number"])] = tuple(
                Frame(str(f[0]), int(f[1]), str(f[2]))
                for f in entry["frames"]  # type: ignore[attr-defined]
            )
        elif kind == "role":
            for number, known in log.groups.items():
                if known.key == entry["key"]:
                    log.groups[number] = replace(known, name=str(entry["role"]))
        else:
            # Looked at here, so that whoever reads notes finds what it expects.
            for key in _NOTE_KEYS.get(str(kind), ()):
                entry[key]
            if kind == "name":
                _int(entry["begin"]), _int(entry["end"]), _int(entry["time_ns"])
            log.notes.append(entry)
    if log is None:
        raise ValueError("its names are empty")
    return log


def read_logs(directory: Path, run: str | None = None) -> list[RankLog]:
    """All ranks' logs of a directory, by rank; of one run, if it is given."""
    logs = [read_log(path) for path in sorted(directory.glob("collectives-*.ring"))]
    return sorted(
        (log for log in logs if run is None or log.run == run), key=lambda log: (log.rank, log.pid)
    )


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no number")
    return value


def _entries(path: Path) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            # The last line of a killed rank may be cut.
            if line.endswith("\n"):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry
