"""Analyses a trace again in a fresh engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from streamguard import _core
from streamguard.deepspeed import known_races
from streamguard.deepspeed.configuration import Configuration
from streamguard.errors import TraceError, UsageError
from streamguard.finding_reader import FindingReader
from streamguard.report.build import build_watched
from streamguard.report.decode import decode_finding, decode_start, decode_summary
from streamguard.report.fields import FieldError
from streamguard.report.merge import DirectoryResult
from streamguard.report.model import Finding, RankFindings, RankStart, RankSummary, WatchedAccess
from streamguard.trace.feeder import Feeder
from streamguard.trace.file_reader import TraceBatch, TraceReader
from streamguard.trace.schema import SUFFIX

_RECORD_SCHEMA = 1  # of the start and summary records, as in a rank's result file


def replay_path(path: Path, *, history: _core.History = _core.History.BOUNDED) -> DirectoryResult:
    """Analyse one trace file, or all of a directory.

    Args:
        path: What the user named.
        history: Bounded gives the findings that the program had; full lists every pair.

    Raises:
        UsageError: there is no trace.
        TraceError: a trace is damaged or of a newer version.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    paths = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not paths:
        raise UsageError(f"{path}: no trace (*{SUFFIX}) in this directory")
    result = DirectoryResult()
    for each in paths:
        replay = Replay(each, history=history)
        replay.run()
        result.notes += replay.notes
        if replay.start is not None:
            result.ranks.append(replay.rank())
    return result


class Replay:
    """One trace file and what was found in it.

    Args:
        path: The file.
        history: As in `replay_path`.
        keeps_races: `replayer.take_races` returns every race, also repeats of one finding.
        data: The file's content, where that was read already.

    Attributes:
        start: Which rank it is from; None where the trace ends before it says so.
        notes: What makes the analysis incomplete.
    """

    def __init__(
        self,
        path: Path,
        *,
        history: _core.History,
        keeps_races: bool = False,
        data: bytes | None = None,
    ) -> None:
        self._path = path
        self._file = TraceReader(path, data=data)
        self.replayer = _core.Replayer(
            history=history, one_host_clock=self._file.one_host_clock, keeps_races=keeps_races
        )
        self._feeder = Feeder(self.replayer)
        self._findings = FindingReader(self._read, annotate=self._annotations)
        self._configuration: Configuration | None = None
        self.start: RankStart | None = None
        self._summary: RankSummary | None = None
        self._waits: list[Finding] = []  # that the program put in
        self.notes: list[str] = []

    def run(self) -> None:
        """Feed the whole trace.

        Raises:
            TraceError: it is damaged.
        """
        for batch in self._file.batches():
            self._feed(batch)
        if self._file.end_is_missing_at is not None:
            number, byte = self._file.end_is_missing_at
            self.notes.append(
                f"{self._path.name} ends inside batch {number} (byte {byte}); it was analysed up "
                "to there"
            )
        if self.start is None:
            self.notes.append(f"{self._path.name} does not say which rank it is from: left out")

    def rank(self) -> RankFindings:
        """What the rank's own report would hold."""
        assert self.start is not None
        return RankFindings(
            start=self.start,
            findings=(*self.findings(), *self._waits),
            accesses=self._accesses(),
            summary=self._summary,
        )

    def findings(self) -> tuple[Finding, ...]:
        """Every finding, named as in the program."""
        raw = self.replayer.findings(self._feeder.frames)
        return tuple(self._findings.as_named(each) for each in raw)

    def _accesses(self) -> tuple[WatchedAccess, ...]:
        return tuple(build_watched(raw) for raw in self.replayer.watched(self._feeder.frames))

    def _read(self, finding_id: int) -> Mapping[str, object]:
        return self.replayer.finding(finding_id, self._feeder.frames)

    def _annotations(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        if self._configuration is None:
            return {}
        return known_races.annotations_for(raw, self._configuration)

    def _feed(self, batch: TraceBatch) -> None:
        try:
            laid_out = self._feeder.batch(batch.rows)
        except ValueError as error:
            raise self._error(batch, str(error)) from error
        row = 0
        while True:
            stop, row, reason = self.replayer.feed(laid_out, row)
            match stop:
                case _core.ReplayStop.END:
                    return
                case _core.ReplayStop.ERROR:
                    raise self._error(batch, f"{self._describe(batch, row)}: {reason}", row)
                case _core.ReplayStop.ANNOUNCED:
                    for finding_id in self.replayer.take_unannounced():
                        self._findings.announce(finding_id)
                case _core.ReplayStop.NAMED:
                    self._findings.names_have_come()
                case _core.ReplayStop.NOTE:
                    self._note(batch, row - 1)

    def _describe(self, batch: TraceBatch, row: int) -> str:
        verb, name = batch.rows["verb"][row].as_py(), batch.rows["name"][row].as_py()
        return f"{verb} {name}" if name is not None and verb != "note" else str(verb)

    def _note(self, batch: TraceBatch, row: int) -> None:
        """Read a line of JSON; types of newer versions that we do not know change no finding."""
        try:
            values = json.loads(self._feeder.text(batch.rows, row))
            if not isinstance(values, dict):
                raise FieldError("not a JSON object")
            match values.get("type"):
                case "start":
                    self._check_record(values)
                    self.start = decode_start(values)
                case "wait":
                    self._check_record(values)
                    self._waits.append(decode_finding(values))
                case "summary":
                    self._check_record(values)
                    self._summary = decode_summary(values)
                case "deepspeed":
                    self._configuration = _configuration(values)
        except (ValueError, RecursionError, FieldError) as error:
            raise self._error(batch, f"note: {error}", row) from error

    def _check_record(self, values: Mapping[str, object]) -> None:
        if values.get("schema") != _RECORD_SCHEMA:
            raise FieldError(f"schema {values.get('schema')!r}; expected {_RECORD_SCHEMA}")

    def _error(self, batch: TraceBatch, reason: str, row: int | None = None) -> TraceError:
        return TraceError(str(self._path), batch.byte, reason, batch=batch.number, row=row)


def _configuration(values: Mapping[str, object]) -> Configuration:
    release = values.get("release")
    if not isinstance(release, list) or not all(type(part) is int for part in release):
        raise FieldError("release: expected a list of numbers")
    fields: dict[str, object] = {"release": tuple(release)}
    kinds = {
        "stage": int,
        "overlap_comm": bool,
        "contiguous_gradients": bool,
        "reduce_scatter": bool,
        "world_size": int,
    }
    for name, kind in kinds.items():
        if type(values.get(name)) is not kind:
            raise FieldError(f"{name}: expected {kind.__name__}")
        fields[name] = values[name]
    return Configuration(**cast("dict[str, int]", fields))  # type: ignore[arg-type]  # checked above
