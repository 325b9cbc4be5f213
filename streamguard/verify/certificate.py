"""What a verification established; nothing here runs anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class EdgeProof:
    """What happens without one edge.

    Attributes:
        edge: Its name.
        findings: Distinct races that the detector reports then.
        example: The first of them.
        schedule: First schedule under which a byte changes; None if none does.
        changed: What changes then: losses, gradients, parameters, or "a rank failed".
    """

    edge: str
    findings: int
    example: str
    schedule: str | None
    changed: tuple[str, ...]

    @property
    def is_necessary(self) -> bool:
        """Whether the edge is missed by the detector's account and by the bytes."""
        return self.findings > 0 and self.schedule is not None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that one rank sends in a round (gradients) or step (parameters), against the bound.

    Attributes:
        sent: Measured.
        bound: (N-1)/N of the bytes of all gradients or parameters.
        padding: (N-1)/N of the padding.
        is_claimed: The reducer claims to send no more; where it does not, the certificate says
            what is sent and does not judge it.
    """

    sent: int
    bound: int
    padding: int
    is_claimed: bool = True

    @property
    def is_as_claimed(self) -> bool:
        """Whether nothing but the bound and the padding was sent, or that was not claimed."""
        return not self.is_claimed or self.sent == self.bound + self.padding


@dataclass(frozen=True, slots=True)
class RankCertificate:
    """What was established for one number of ranks.

    Attributes:
        ranks: Number of ranks.
        streams: Streams in use on each rank.
        findings: Races reported on the unchanged reducer.
        coverage: What the detector saw, by kind, summed over ranks.
        schedules: Schedules that were run.
        different: Schedules under which a byte differed from the run without overlap, and what.
        edges: One proof for each edge.
        gradients: Bytes of gradients on the wire.
        parameters: Bytes of parameters on the wire.
        memory: Device memory for gradients, in bytes, and its bound.
        late_allocations: Device allocations after the first step.
    """

    ranks: int
    streams: int
    findings: tuple[str, ...]
    coverage: Mapping[str, int]
    schedules: tuple[str, ...]
    different: Mapping[str, tuple[str, ...]]
    edges: tuple[EdgeProof, ...]
    gradients: Traffic
    parameters: Traffic
    memory: Mapping[str, int]
    late_allocations: int

    @property
    def is_covered(self) -> bool:
        """Whether the detector saw something and nothing escaped it."""
        unseen = self.coverage["opaque_launches"] + self.coverage["unregistered_kernels"]
        every_rank = self.coverage.get("launches_observed", 0) == self.ranks
        return self.coverage["accesses"] > 0 and every_rank and unseen == 0

    @property
    def is_within_memory(self) -> bool:
        """Whether buckets, shards and waiting gradients stay within the bound."""
        used = sum(self.memory[part] for part in ("slots", "shards", "deferred_peak"))
        return used <= self.memory["bound"]

    def failures(self) -> tuple[str, ...]:
        """What does not hold, one sentence each; empty if everything does."""
        failures = []
        if not self.is_covered:
            failures.append("the detector did not see every launch")
        if self.findings:
            failures.append(f"the detector reports {len(self.findings)} races")
        if self.different:
            failures.append(f"bytes differ under {len(self.different)} schedules")
        failures += [
            f"edge {proof.edge} is not shown to be needed"
            for proof in self.edges
            if not proof.is_necessary
        ]
        if not self.gradients.is_as_claimed:
            failures.append("more gradient bytes are sent than needed")
        if not self.parameters.is_as_claimed:
            failures.append("more parameter bytes are sent than needed")
        if not self.is_within_memory:
            failures.append("gradients take more memory than the bound")
        if self.late_allocations:
            failures.append(f"{self.late_allocations} device allocations after the first step")
        return tuple(failures)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The verification of one reducer.

    Attributes:
        reducer: Its name.
        versions: Of what was run.
        by_ranks: One part for each number of ranks.
    """

    reducer: str
    versions: Mapping[str, str]
    by_ranks: tuple[RankCertificate, ...]

    @property
    def holds(self) -> bool:
        """Whether everything that was to be shown was shown."""
        return all(not part.failures() for part in self.by_ranks)

    def to_json(self) -> dict[str, object]:
        """The certificate as JSON can hold it."""
        return {
            "type": "reducer_certificate",
            "schema": 1,
            "reducer": self.reducer,
            "versions": dict(self.versions),
            "holds": self.holds,
            "by_ranks": [
                {**asdict(part), "failures": list(part.failures())} for part in self.by_ranks
            ],
        }
