"""The session: the time during which the hooks watch, and what they found in it.

One session at a time owns the hooks. A session that starts inside another one (a test under
`STREAMGUARD=1`) is a window on the outer one: it shows only what happened while it was open.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import TracebackType

from streamguard import hooks
from streamguard.config import Stacks
from streamguard.errors import UsageError
from streamguard.finding_reader import Annotator, FindingReader, RawFinding
from streamguard.identity import rank_start
from streamguard.nvtx_marks import mark_finding
from streamguard.report.build import (
    build_coverage,
    build_early_free,
    build_finding,
    build_watched,
)
from streamguard.report.merge import merge_ranks
from streamguard.report.model import (
    Coverage,
    Finding,
    Misuse,
    Mode,
    RankFindings,
    RankSummary,
    Report,
    WatchedAccess,
)
from streamguard.report_filter import Filters, ReportFilter, joined, matches

_NO_STEP = -1

LEFT_OUT = "races on other tensors or in other modules"

_annotators: list[Annotator] = []
_aliases: dict[str, tuple[str, ...]] = {}  # of every region's name
_current: Session | None = None
_filtered_sessions = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    findings: tuple[Finding, ...]
    misuses: tuple[Misuse, ...]
    coverage: Coverage
    accesses: tuple[WatchedAccess, ...]


class Session:
    """Watches the program from `start` to `stop`; also a context manager.

    Not thread-safe: start and stop it from one thread. What it watches may run on any thread.

    Args:
        stacks: How many Python frames are kept with each op.
        accesses: Patterns of region names; accesses to regions named while it is open are listed.
        sampling: What to look at; by default everything. Counts in the outermost session only.
        enforcing: Put the missing waits in; what they order is no finding, see `waits`. Counts in
            the outermost session only.
        confirming: Try whether races change bytes when their pair occurs again. Counts in the
            outermost session only.
        cupti: Hear runtime calls through CUPTI. Counts in the outermost session only.
        filters: Names of tensors and modules whose races are reported; by default all.
        on_finding: Called for every new distinct finding, from the thread that made the second
            access, while that access is being issued; again when more of its names are known.
    """

    def __init__(
        self,
        *,
        stacks: Stacks = "full",
        accesses: Iterable[str] = (),
        enforcing: hooks.Enforcing | None = None,
        sampling: hooks.Sampling | None = None,
        confirming: bool = False,
        cupti: bool = False,
        filters: Filters | None = None,
        on_finding: Callable[[Finding], None] | None = None,
    ) -> None:
        self._stacks = stacks
        self._accesses = tuple(accesses)
        self._enforcing = enforcing
        self._sampling = sampling
        self._confirming = confirming
        self._cupti = cupti
        self._filters = filters or Filters()
        self._filter: ReportFilter | None = None
        self._told_places_apart = 0
        self._told: dict[int, int] = {}  # by pair: the finding that stands for its places
        self._on_finding = on_finding
        self._outer: Session | None = None
        self._outermost = self
        self._patterns = self._accesses  # its own, and those of the sessions around it
        self._mode: Mode | None = None  # what it does besides watching, if it owns the hooks
        self._undo: Callable[[], None] | None = None
        self._counts_before: dict[int, int] = {}
        self._misuses_before: dict[int, int] = {}
        self._coverage_before = Coverage()
        self._result: _Seen | None = None
        self._is_open = False
        self._step = 0
        self._reader = self._new_reader()

    def start(self) -> None:
        """Begin to watch; torch must be imported.

        Raises:
            UsageError: this session is already open.
            MissingBuildError: the native hooks are absent or were built for another torch.
        """
        global _current
        if self._is_open:
            raise UsageError("this session is already open; stop it before starting it again")
        self._result = None
        self._step = 0
        self._reader = self._new_reader()
        self._outer = outer = _current
        self._outermost = self if outer is None else outer._outermost
        self._patterns = self._accesses if outer is None else (*self._accesses, *outer._patterns)
        if outer is None:
            self._undo = hooks.install(
                stacks=self._stacks,
                sink=self._sink,
                enforcing=self._enforcing,
                sampling=self._sampling,
                confirming=self._confirming,
                cupti=self._cupti,
            )
            self._mode = "enforce" if self._enforcing else "confirm" if self._confirming else None
            hooks.set_step(_NO_STEP)  # not the last step of an earlier session
        self._counts_before = {
            finding.id: finding.count for finding in map(build_finding, hooks.findings())
        }
        self._misuses_before = {misuse.id: misuse.count for misuse in _early_frees()}
        self._coverage_before = build_coverage(hooks.coverage())
        self._start_filter()
        self._is_open = True
        _current = self

    def stop(self) -> None:
        """Stop watching; what was found stays readable. A session that is not open stays so."""
        global _current
        if not self._is_open:
            return
        if _current is not self:
            raise UsageError("a session opened inside this one is still open; stop it first")
        self._result = self._read()
        if self._filter is not None:
            self._filter.stop()
            outer = self._outer
            hooks.tell_places_apart(0 if outer is None else outer._told_places_apart)
        if self._undo is not None:
            self._undo()
            self._undo = None
        self._is_open = False
        _current = self._outer
        self._outer = None

    def begin_anew_in_child(self, prepare: Callable[[], None]) -> None:
        """In a forked child, whose parent had not initialised CUDA: watch it on its own.

        Args:
            prepare: Called when the parent is forgotten and nothing is watched yet.
        """
        hooks.begin_anew_in_child(self._enforcing, prepare, confirming=self._confirming)
        hooks.set_step(_NO_STEP)
        self._reader = self._new_reader()
        self._counts_before = {}
        self._misuses_before = {}
        self._coverage_before = build_coverage(hooks.coverage())

    def findings(self) -> tuple[Finding, ...]:
        """All pairs found while the session was open, with their counts in that time."""
        return tuple(finding for finding in self._state().findings if finding.inserted is None)

    def waits(self) -> tuple[Finding, ...]:
        """The pairs that would have raced and that inserted waits kept apart."""
        return tuple(finding for finding in self._state().findings if finding.inserted is not None)

    def misuses(self) -> tuple[Misuse, ...]:
        """Hints: what is no race in this run and may be one in another."""
        return self._state().misuses

    def coverage(self) -> Coverage:
        """What was seen while the session was open."""
        return self._state().coverage

    def accesses(self) -> tuple[WatchedAccess, ...]:
        """The accesses to regions whose names match the patterns."""
        return self._state().accesses

    def report(self) -> Report:
        """A report on this process alone."""
        seen = self._state()
        start = rank_start() if self._mode is None else replace(rank_start(), mode=self._mode)
        rank = RankFindings(
            start=start,
            findings=seen.findings,
            misuses=seen.misuses,
            accesses=seen.accesses,
            summary=RankSummary(start.rank, start.pid, seen.coverage, ()),
        )
        return merge_ranks([rank], expected_ranks=[start.rank], access_patterns=self._accesses)

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _state(self) -> _Seen:
        if self._result is not None:
            return self._result
        if not self._is_open:
            raise UsageError("this session was never started")
        return self._read()

    def _read(self) -> _Seen:
        hooks.flush()
        findings: dict[int, Finding] = {}
        pairs = set()
        for raw in hooks.findings():
            finding = self._outermost._reader.as_named(raw)
            count = finding.count - self._counts_before.get(finding.id, 0)
            if count <= 0:
                continue
            pair = hooks.finding_place(finding.id).pair
            pairs.add(pair)
            if self._is_listed(finding):
                finding = replace(finding, count=count)
                other = findings.get(pair, finding)
                if self._told.get(pair) == finding.id:
                    finding, other = other, finding
                findings[pair] = finding if other is finding else joined(other, finding)
        left_out = len(pairs) - len(findings)
        coverage = _difference(build_coverage(hooks.coverage()), self._coverage_before)
        return _Seen(
            tuple(findings.values()),
            tuple(self._misuses_since_start()),
            self._with_filters(coverage, left_out),
            tuple(build_watched(raw) for raw in hooks.watched()),
        )

    def _start_filter(self) -> None:
        global _filtered_sessions
        self._told = {}
        self._told_places_apart = 0 if self._outer is None else self._outer._told_places_apart
        if not self._filters:
            return
        # A number of its own, so that what was found before is found again, and judged here.
        _filtered_sessions += 1
        self._told_places_apart = _filtered_sessions
        hooks.tell_places_apart(_filtered_sessions)
        self._filter = ReportFilter(self._filters, _aliases)

    def _is_listed(self, finding: Finding) -> bool:
        """Waits that were put in are always reported: the program runs with them."""
        return self._filter is None or finding.inserted is not None or self._filter.lists(finding)

    def _with_filters(self, coverage: Coverage, left_out: int) -> Coverage:
        if self._filter is None:
            return coverage
        return replace(
            coverage,
            opaque=(*coverage.opaque, *(((LEFT_OUT, left_out),) if left_out else ())),
            filters=self._filters.texts(),
            unmatched_filters=self._filter.unmatched(),
        )

    def _tell(self, finding: Finding) -> None:
        """Judge it while what it is about is there; of the places of a pair, tell one."""
        session: Session | None = _current
        while session is not None and session is not self:
            session._is_listed(finding)
            session = session._outer
        if not self._is_listed(finding) or self._on_finding is None:
            return
        pair = hooks.finding_place(finding.id).pair
        if self._told.setdefault(pair, finding.id) == finding.id:
            self._on_finding(finding)

    def _misuses_since_start(self) -> Iterator[Misuse]:
        for misuse in _early_frees():
            count = misuse.count - self._misuses_before.get(misuse.id, 0)
            if count > 0:
                yield replace(misuse, count=count)

    def _sink(self, finding_id: int) -> None:
        self._reader.announce(finding_id)
        mark_finding(build_finding(hooks.finding(finding_id)))

    def _new_reader(self) -> FindingReader:
        return FindingReader(hooks.finding, annotate=_annotations, on_finding=self._tell)


def current() -> Session | None:
    """The innermost open session."""
    return _current


def add_annotator(annotate: Annotator) -> Callable[[], None]:
    """Let `annotate(raw finding)` add fields to every finding, such as `known`.

    Returns:
        Undo: removes the annotator.
    """
    _annotators.append(annotate)

    def undo() -> None:
        if annotate in _annotators:
            _annotators.remove(annotate)

    return undo


def name_region(
    begin: int,
    end: int,
    name: str,
    since_op: int | None = None,
    *,
    aliases: Iterable[str] = (),
) -> None:
    """Name the bytes [begin, end) from op `since_op` on, by default from the newest op on.

    A name that matches a pattern of an open session has its accesses listed; so has one of which an
    alias matches. Without an open session nothing happens.
    """
    session = _current
    if session is None:
        return
    hooks.name_region(begin, end, name, hooks.current_op() if since_op is None else since_op)
    others = tuple(aliases)
    if name not in _aliases:
        _aliases[name] = others
    if session._patterns and matches((name, *others), session._patterns):
        hooks.watch(begin, end, name)
    session._outermost._reader.names_have_come()


def must_see_names() -> bool:
    """Whether `name_region` does more, or less, with a name it has seen than to give it again."""
    session = _current
    if session is None:
        return True
    waiting = session._outermost._reader.unnamed_ids
    return bool(session._patterns or waiting or hooks.name_listeners)


def name_stream(device: int, handle: int, name: str) -> None:
    """Name a stream by its role; without an open session nothing happens."""
    if _current is None:
        return
    hooks.name_stream(device, handle, name)


def set_step(step: int) -> None:
    """Say that the program is now in training step `step`, from 0."""
    if _current is None:
        return
    _current._outermost._step = step
    hooks.set_step(step)


def note(kind: str, values: Mapping[str, object]) -> None:
    """Put facts into the op trace that a replay needs to annotate as this process does.

    Without an open session, or without a trace, nothing happens.
    """
    if _current is None:
        return
    hooks.note(json.dumps({"type": kind, **values}))


def end_step() -> None:
    """Say that the current training step has ended; steps count from 0 in the outermost session."""
    if _current is not None:
        set_step(_current._outermost._step + 1)


def _early_frees() -> list[Misuse]:
    return [build_early_free(number, raw) for number, raw in enumerate(hooks.early_frees())]


def _annotations(raw: RawFinding) -> Mapping[str, object]:
    annotations: dict[str, object] = {}
    for annotate in _annotators:
        annotations.update(annotate(raw))
    return annotations


def _difference(after: Coverage, before: Coverage) -> Coverage:
    """Coverage of a time: counts are differences, the rest is as it is now."""
    counts = {"ops", "accesses", "collectives", "waits", "records", "syncs"}
    counts |= {"waits_inserted", "waits_not_inserted"}
    changed: dict[str, int] = {
        item.name: getattr(after, item.name) - getattr(before, item.name)
        for item in fields(Coverage)
        if item.name in counts
    }
    earlier = dict(before.opaque)
    opaque = tuple((name, count - earlier.get(name, 0)) for name, count in after.opaque)
    return replace(
        after,
        opaque=tuple((name, count) for name, count in opaque if count),
        ops=changed["ops"],
        accesses=changed["accesses"],
        collectives=changed["collectives"],
        waits=changed["waits"],
        records=changed["records"],
        syncs=changed["syncs"],
        waits_inserted=changed["waits_inserted"],
        waits_not_inserted=changed["waits_not_inserted"],
    )
