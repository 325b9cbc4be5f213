"""The data of a report: findings, accesses, coverage and ranks. No input, no output, no wording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AccessKind = Literal["read", "write"]
Status = Literal["races", "clean", "checked-nothing"]
Mode = Literal["watch", "enforce", "confirm"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python frame; frames are listed innermost first."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class NamedBytes:
    """The bytes [begin, end) of the thing called `name`, counted from its start."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A CUDA stream, by device and handle, with the name that its role gave it."""

    device: int
    handle: int
    name: str


@dataclass(frozen=True, slots=True)
class Region:
    """`rows` rows of `width` bytes, one every `pitch` bytes, from address `begin`."""

    begin: int
    width: int
    pitch: int
    rows: int


@dataclass(frozen=True, slots=True)
class Collective:
    """That an access belongs to a collective of the named process group."""

    asynchronous: bool
    group: str


@dataclass(frozen=True, slots=True)
class Access:
    """One op reading or writing one region, on a stream or on the host."""

    op: str
    op_id: int
    kind: AccessKind
    on_host: bool
    stream: Stream | None
    host_thread: int | None
    epoch: int
    region: Region
    allocation: int
    names: tuple[NamedBytes, ...]
    frames: tuple[Frame, ...]
    forward_frames: tuple[Frame, ...]
    collective: Collective | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """The first overlapping run of bytes, as address and as each access names it."""

    begin: int
    end: int
    names_first: tuple[NamedBytes, ...]
    names_second: tuple[NamedBytes, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """What orders one op before another; `kind` as the engine calls it, such as "event_wait"."""

    kind: str
    event: int
    from_stream: str
    after_op: int
    before_op: int


@dataclass(frozen=True, slots=True)
class MissingOrder:
    """The clock component that is missing: the epoch needed and the newest one known."""

    needed_epoch: int
    known_epoch: int
    last_wait: Edge | None
    event_after_first: bool


@dataclass(frozen=True, slots=True)
class KnownRace:
    """A published defect that a finding matches, and how to avoid it.

    `affected` and `first_good` are releases as text for people; `running` is the release that ran.
    """

    id: str
    title: str
    upstream: tuple[str, ...]
    affected: str
    first_good: str
    avoid: str
    running: str


@dataclass(frozen=True, slots=True)
class InsertedWaits:
    """What the waits met that were inserted between a pair.

    Attributes:
        running: Waits whose awaited work was not over when they were inserted.
        timed: Waits whose stall was measured by event times.
        waited_ms: Device time that the waiting stream stood still, over the timed ones.
    """

    running: int
    timed: int
    waited_ms: float


@dataclass(frozen=True, slots=True)
class Tries:
    """What came out when a pair occurred again with its first op delayed.

    Attributes:
        count: Occurrences that were tried.
        showing: Tries in which bytes were not what they would be with the missing edge.
        compared_bytes: Bytes compared in the first such try, else in the last.
        changed_bytes: How many of them differed.
    """

    count: int
    showing: int
    compared_bytes: int
    changed_bytes: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Two conflicting accesses to the same bytes that nothing orders.

    `step` is the first training step it was seen in; `count` how often the pair was seen; `repair`
    the lines that tell how to order it; `suppression` the key that names the pair in every run;
    `inserted` tells of the waits that kept the pair apart: then it is no race, and `count` is how
    often one was inserted; `tries` what trying it showed, None where it was not to be tried.
    """

    id: int
    code: str
    kind: str
    domain: str
    count: int
    step: int | None
    first: Access
    second: Access
    overlap: Overlap
    missing: MissingOrder
    known: KnownRace | None
    repair: tuple[str, ...]
    suppression: str
    inserted: InsertedWaits | None = None
    tries: Tries | None = None


@dataclass(frozen=True, slots=True)
class Misuse:
    """Wrong use or a hint (SG1xx) without two accesses; it never decides the exit status."""

    id: int
    code: str
    count: int
    step: int | None
    message: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class OrderedAfter:
    """An earlier conflicting access of a listed region, and the edge that orders it."""

    op: str
    kind: AccessKind
    stream: str
    edge: Edge


@dataclass(frozen=True, slots=True)
class WatchedAccess:
    """One kind of access to a region whose accesses are listed, with all that came before it."""

    name: str
    op: str
    kind: AccessKind
    stream: str
    step: int | None
    count: int
    begin: int
    end: int
    frames: tuple[Frame, ...]
    ordered_after: tuple[OrderedAfter, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the hooks saw.

    Attributes:
        waits_inserted: Waits that enforcing put in.
        waits_not_inserted: Waits that it could not put in; their races are findings.
        filters: Patterns that the report was limited to, each behind its kind: "tensors a*".
        unmatched_filters: Those of them that nothing was called like.
        opaque: Launches outside any observed op, by kind.
        gave_way: Layers that left their place to another tool, and to which.
        silent: Layers that were asked for and heard nothing, and why.
        unregistered_kernels: Native kernels registered after the hooks: their ops are not seen.
        unregistered_kernel_names: The first few of them.
        devices: Where ops ran: index, model and the start of the UUID.
    """

    ops: int = 0
    accesses: int = 0
    collectives: int = 0
    waits: int = 0
    records: int = 0
    syncs: int = 0
    waits_inserted: int = 0
    waits_not_inserted: int = 0
    layers: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    unmatched_filters: tuple[str, ...] = ()
    opaque: tuple[tuple[str, int], ...] = ()
    gave_way: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    launches_observed: bool = False
    thread_handover_assumed: bool = True
    regions: int = 0
    unregistered_kernels: int = 0
    unregistered_kernel_names: tuple[str, ...] = ()
    streams: int = 0
    cuda_initialised: bool = False
    process_group: bool = False
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankStart:
    """The first record of a rank's file.

    `host` is a hash, so that no machine's name leaves it; `selected_ranks` are the only ranks that
    are watched, None when all are; `attempt` counts how often the job was started anew before.
    """

    run: str
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    host: str
    pid: int
    versions: tuple[tuple[str, str], ...]
    virtual_devices: int | None
    schedule: str
    selected_ranks: tuple[int, ...] | None = None
    mode: Mode = "watch"
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class RankSummary:
    """The last record of a rank's file; a rank that was killed has none."""

    rank: int
    pid: int
    coverage: Coverage
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RankFindings:
    """Everything one rank wrote."""

    start: RankStart
    findings: tuple[Finding, ...] = ()
    misuses: tuple[Misuse, ...] = ()
    accesses: tuple[WatchedAccess, ...] = ()
    summary: RankSummary | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the process did nothing that was seen, as far as it is known."""
        ops = 0 if self.summary is None else self.summary.coverage.ops
        return not (ops or self.findings or self.misuses or self.accesses)


@dataclass(frozen=True, slots=True)
class MergedFinding:
    """One pair, with how often each rank saw it: ((rank, count), ...), ascending."""

    finding: Finding
    counts: tuple[tuple[int, int], ...]

    @property
    def total(self) -> int:
        """How often the pair was seen, over all ranks."""
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class MergedMisuse:
    """One misuse, with how often each rank saw it."""

    misuse: Misuse
    counts: tuple[tuple[int, int], ...]

    @property
    def is_hint(self) -> bool:
        """Nothing was done wrong in this run; another timing of the allocator may show a race."""
        return self.misuse.code == "SG101"


@dataclass(frozen=True, slots=True)
class MergedAccess:
    """One row of the access table, with the ranks that saw it."""

    access: WatchedAccess
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """One job, all ranks together.

    Attributes:
        inserted: The pairs that inserted waits kept apart.
        ranks: Every rank that reported, ascending.
        expected_ranks: The watched ranks of the job, as far as the ranks that reported know.
        missing_ranks: Watched ranks that never reported in.
        died_ranks: Ranks that reported in and ended without a summary.
        notes: What makes this report incomplete, such as damaged records.
        access_patterns: The patterns whose accesses were asked for.
    """

    findings: tuple[MergedFinding, ...] = ()
    inserted: tuple[MergedFinding, ...] = ()
    misuses: tuple[MergedMisuse, ...] = ()  # and hints
    accesses: tuple[MergedAccess, ...] = ()
    ranks: tuple[RankFindings, ...] = ()
    expected_ranks: tuple[int, ...] = ()
    missing_ranks: tuple[int, ...] = ()
    died_ranks: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    access_patterns: tuple[str, ...] = ()

    @property
    def is_enforced(self) -> bool:
        """Whether missing waits were to be put in."""
        return any(rank.start.mode == "enforce" for rank in self.ranks)

    @property
    def is_confirming(self) -> bool:
        """Whether races were to be tried."""
        return any(rank.start.mode == "confirm" for rank in self.ranks)

    @property
    def confirmed(self) -> int:
        """Races of which a try showed that bytes change."""
        tries = [merged.finding.tries for merged in self.findings]
        return sum(1 for each in tries if each is not None and each.showing)

    @property
    def misuse_count(self) -> int:
        """Misuses without the hints among them."""
        return sum(1 for merged in self.misuses if not merged.is_hint)

    @property
    def waits_inserted(self) -> int:
        """Waits put in, over all ranks that wrote a summary."""
        return sum(rank.summary.coverage.waits_inserted for rank in self.ranks if rank.summary)

    @property
    def unmatched_filters(self) -> tuple[str, ...]:
        """The filter patterns, behind their kinds, that nothing on any rank was called like."""
        coverages = [rank.summary.coverage for rank in self.ranks if rank.summary]
        filtered = [coverage for coverage in coverages if coverage.filters and coverage.ops]
        return tuple(
            text
            for text in (filtered[0].filters if filtered else ())
            if all(text in coverage.unmatched_filters for coverage in filtered)
        )

    @property
    def is_filtered_out(self) -> bool:
        """Whether a filter was given of which no pattern fits anything: it hides every race."""
        filters = {
            text for rank in self.ranks if rank.summary for text in rank.summary.coverage.filters
        }
        fitting = filters - set(self.unmatched_filters)
        return {text.split()[0] for text in filters} != {text.split()[0] for text in fitting}

    @property
    def checked_nothing(self) -> bool:
        """Whether no rank saw a single op, or none could be reported: such a run proves nothing.

        A rank that died before its summary is taken to have seen ops if it found something.
        """
        if self.findings:
            return False
        has_ops = any(rank.summary and rank.summary.coverage.ops for rank in self.ranks)
        return not has_ops or self.is_filtered_out

    @property
    def status(self) -> Status:
        """The verdict over all ranks."""
        if self.findings:
            return "races"
        return "checked-nothing" if self.checked_nothing else "clean"
