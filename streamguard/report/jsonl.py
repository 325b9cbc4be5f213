"""Result files: one JSON object a line, appended and flushed so that a killed rank loses nothing.

The first record is `start`; a later record of the same type and id replaces an earlier one; the
last is `summary`. Every record carries `type` and `schema`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streamguard.errors import RecordError
from streamguard.report import decode
from streamguard.report.encode import (
    Json,
    encode_finding,
    encode_misuse,
    encode_start,
    encode_summary,
    encode_watched,
)
from streamguard.report.fields import FieldError
from streamguard.report.model import (
    Finding,
    Misuse,
    RankFindings,
    RankStart,
    RankSummary,
    WatchedAccess,
)

SCHEMA = 1

Record = RankStart | Finding | Misuse | WatchedAccess | RankSummary


def to_json(record: Record) -> Json:
    """The JSON object of one record, with its type and the schema version."""
    match record:
        case RankStart():
            name, values = "start", encode_start(record)
        case Finding():
            name = "race" if record.inserted is None else "wait"
            values = encode_finding(record)
        case Misuse():
            name, values = "misuse", encode_misuse(record)
        case WatchedAccess():
            name, values = "access", encode_watched(record)
        case RankSummary():
            name, values = "summary", encode_summary(record)
    return {"type": name, "schema": SCHEMA, **values}


def to_line(record: Record) -> str:
    """One record as a line of a result file."""
    return json.dumps(to_json(record), separators=(",", ":")) + "\n"


class RankFile:
    """The result file of this process, `rank-<rank>-<pid>.jsonl`.

    Every record is with the operating system when `append` returns: a killed process loses none.

    Raises:
        OSError: from the constructor and from `append`, when the file cannot be written.
    """

    def __init__(self, directory: Path, *, rank: int, pid: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / f"rank-{rank}-{pid}.jsonl"
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def append(self, record: Record) -> None:
        """Write one record."""
        data = to_line(record).encode()
        while data:
            data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        """Close the file; further appends are errors."""
        os.close(self._descriptor)


@dataclass(slots=True)
class ReadResult:
    """What a result file held: the rank's records, and the records that could not be read."""

    rank: RankFindings | None
    damaged: list[RecordError] = field(default_factory=list)


def read_rank_file(path: Path) -> ReadResult:
    """Read one result file; damaged records are skipped and listed with their line.

    A last line without its end is what a kill in the middle of a write leaves; it is listed too.

    Raises:
        OSError: the file cannot be read.
    """
    collected = _Collected()
    damaged: list[RecordError] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                collected.add(_parse(line))
            except FieldError as error:
                damaged.append(RecordError(str(path), number, str(error)))
    rank = collected.finish()
    if rank is None and not damaged:
        damaged.append(RecordError(str(path), 1, "no start record: not a result file of a rank"))
    return ReadResult(rank, damaged)


def _parse(line: bytes) -> tuple[str, Mapping[str, object]]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"not JSON ({error})") from None
    if not isinstance(values, dict):
        raise FieldError("not a JSON object")
    schema = values.get("schema")
    if schema != SCHEMA:
        raise FieldError(f"schema {schema!r}; this version of streamguard reads {SCHEMA}")
    kind = values.get("type")
    if kind not in ("start", "race", "wait", "misuse", "access", "summary"):
        raise FieldError(f"type {kind!r} is unknown")
    return kind, values


class _Collected:
    """The newest record of every type and id."""

    def __init__(self) -> None:
        self._start: RankStart | None = None
        self._findings: dict[int, Finding] = {}
        self._misuses: dict[int, Misuse] = {}
        self._accesses: list[WatchedAccess] = []
        self._summary: RankSummary | None = None

    def add(self, record: tuple[str, Mapping[str, object]]) -> None:
        kind, values = record
        match kind:
            case "start":
                self._start = decode.decode_start(values)
            case "race" | "wait":
                finding = decode.decode_finding(values)
                self._findings[finding.id] = finding
            case "misuse":
                misuse = decode.decode_misuse(values)
                self._misuses[misuse.id] = misuse
            case "access":
                self._accesses.append(decode.decode_watched(values))
            case "summary":
                self._summary = decode.decode_summary(values)

    def finish(self) -> RankFindings | None:
        if self._start is None:
            return None
        return RankFindings(
            start=self._start,
            findings=tuple(self._findings.values()),
            misuses=tuple(self._misuses.values()),
            accesses=tuple(self._accesses),
            summary=self._summary,
        )
