"""Verifies a reducer: unchanged under every schedule, then with each edge left out in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from streamguard.errors import UsageError
from streamguard.verify.certificate import EdgeProof, RankCertificate, Traffic
from streamguard.verify.jobs import JobError, Jobs, Outcome
from streamguard.verify.subjects import Subject
from streamguard.verify.wire import Wire, streams_in, wire_of

Result = Mapping[str, object]

RANDOM_SCHEDULES = 4
_COMPARED = ("losses", "gradients", "parameters")


@dataclass(frozen=True, slots=True)
class Verification:
    """One reducer on the jobs that run it.

    Attributes:
        subject: The reducer.
        jobs: Where it runs.
        progress: Called with one line for each thing that is about to run.
    """

    subject: Subject
    jobs: Jobs
    progress: Callable[[str], None]

    def certify(self, ranks: int) -> RankCertificate:
        """Establish everything for one number of ranks.

        Raises:
            JobError: the unchanged reducer failed.
        """
        self.progress(f"{ranks} ranks: reference without overlap")
        reference = _results(self._run(ranks, "eager", overlap=False))
        self.progress(f"{ranks} ranks: watched by the detector")
        watched = self._run(ranks, "eager", watch=True)
        streams = max(streams_in(log) for log in watched.calls)
        schedules = tuple(_schedules(streams))
        different: dict[str, tuple[str, ...]] = {}
        for number, schedule in enumerate(schedules, 1):
            self.progress(f"{ranks} ranks: schedule {number} of {len(schedules)}, {schedule}")
            changed = _changes(reference, _results(self._run(ranks, schedule)))
            if changed:
                different[schedule] = changed
        edges = []
        for edge in self.subject.edges:
            self.progress(f"{ranks} ranks: without edge {edge}")
            proof = self._prove(edge, ranks, reference, schedules)
            when = f"bytes change under {proof.schedule}" if proof.schedule else "no byte changes"
            self.progress(f"{ranks} ranks: without edge {edge}: {proof.findings} races, {when}")
            edges.append(proof)
        return _certificate(
            _results(watched), watched.calls, schedules, different, tuple(edges), self.subject
        )

    def _prove(
        self,
        edge: str,
        ranks: int,
        reference: Sequence[Result],
        schedules: Sequence[str],
    ) -> EdgeProof:
        findings: tuple[str, ...] = ()
        try:
            findings = _findings(_results(self._run(ranks, "eager", without=edge, watch=True)))
        except JobError as error:
            return EdgeProof(edge, 0, str(error).splitlines()[0], "eager", ("a rank failed",))
        example = findings[0] if findings else ""
        for schedule in schedules:
            try:
                results = _results(self._run(ranks, schedule, without=edge))
            except JobError:
                return EdgeProof(edge, len(findings), example, schedule, ("a rank failed",))
            changed = _changes(reference, results)
            if changed:
                return EdgeProof(edge, len(findings), example, schedule, changed)
        return EdgeProof(edge, len(findings), example, None, ())

    def _run(
        self,
        ranks: int,
        schedule: str,
        *,
        overlap: bool = True,
        without: str | None = None,
        watch: bool = False,
    ) -> Outcome:
        argument = {"overlap": overlap, "without": without, "watch": watch}
        return self.jobs.run_logged(self.subject.program, argument, ranks=ranks, schedule=schedule)


def parse_ranks(text: str) -> tuple[int, ...]:
    """Read the text of `--ranks`.

    Raises:
        UsageError: it is not a list of numbers from 1 to 8.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and 1 <= int(part) <= 8 for part in parts):
        raise UsageError(f"--ranks {text!r}: expected numbers from 1 to 8, such as 2,3,4")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _schedules(streams: int) -> Iterator[str]:
    """Both simple ones, one extreme for each ordered pair of streams, a few random ones."""
    yield "eager"
    yield "lazy"
    for early in range(streams):
        for late in range(streams):
            if early != late:
                yield f"extreme:{early},{late}"
    for seed in range(1, RANDOM_SCHEDULES + 1):
        yield f"random:{seed}"


def _results(outcome: Outcome) -> list[Result]:
    return [cast(Result, result) for result in outcome.results]


def _changes(reference: Sequence[Result], results: Sequence[Result]) -> tuple[str, ...]:
    """Names of what differs on any rank."""
    pairs = list(zip(reference, results, strict=True))
    return tuple(
        name for name in _COMPARED if any(first[name] != second[name] for first, second in pairs)
    )


def _findings(results: Sequence[Result]) -> tuple[str, ...]:
    return tuple(text for result in results for text in cast(list[str], result["findings"]))


def _certificate(
    results: Sequence[Result],
    logs: Sequence[str],
    schedules: tuple[str, ...],
    different: Mapping[str, tuple[str, ...]],
    edges: tuple[EdgeProof, ...],
    subject: Subject,
) -> RankCertificate:
    ranks = len(results)
    wires = [wire_of(log, ranks=ranks) for log in logs]
    coverage: dict[str, int] = {}
    for result in results:
        for name, count in cast(Mapping[str, int], result["coverage"]).items():
            coverage[name] = coverage.get(name, 0) + count
    memories = [cast(Mapping[str, int], result["memory"]) for result in results]
    return RankCertificate(
        ranks=ranks,
        streams=max(streams_in(log) for log in logs),
        findings=_findings(results),
        coverage=coverage,
        schedules=schedules,
        different=different,
        edges=edges,
        gradients=replace(
            _traffic(results, wires, "gradient"), is_claimed=subject.claims_least_gradient_bytes
        ),
        parameters=_traffic(results, wires, "parameter"),
        memory=max(memories, key=lambda memory: memory["slots"] + memory["deferred_peak"]),
        late_allocations=max(cast(int, result["late_allocations"]) for result in results),
    )


def _traffic(results: Sequence[Result], wires: Sequence[Wire], what: str) -> Traffic:
    """What the rank that sent most sent in one round or step."""
    ranks = len(results)
    first = results[0]
    if what == "gradient":
        times = cast(int, first["rounds"])
        total = max(wire.gradients for wire in wires)
    else:
        times = cast(int, first["steps"])
        total = max(wire.parameters for wire in wires)
    bound = (ranks - 1) * cast(int, first[f"{what}_bytes"]) // ranks
    padding = (ranks - 1) * cast(int, first["padding_bytes"]) // ranks
    return Traffic(total // times, bound, padding)
