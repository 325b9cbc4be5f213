"""A certificate as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from streamguard.verify.certificate import Certificate, EdgeProof, RankCertificate, Traffic


def render(certificate: Certificate) -> str:
    """Return the whole certificate; the last line is its verdict."""
    lines = [f"Reducer {certificate.reducer}, {_versions(certificate)}"]
    for part in certificate.by_ranks:
        lines += ["", *_of_ranks(part)]
    failures = sum(len(part.failures()) for part in certificate.by_ranks)
    verdict = "holds" if certificate.holds else f"does not hold: {failures} failures"
    numbers = ",".join(str(part.ranks) for part in certificate.by_ranks)
    lines += ["", f"SUMMARY verify-reducer reducer={certificate.reducer} ranks={numbers} {verdict}"]
    return "\n".join(lines) + "\n"


def _versions(certificate: Certificate) -> str:
    return ", ".join(f"{name} {version}" for name, version in certificate.versions.items())


def _of_ranks(part: RankCertificate) -> Iterator[str]:
    yield f"{part.ranks} ranks"
    coverage = part.coverage
    covered = "every launch seen" if part.is_covered else "NOT EVERY LAUNCH SEEN"
    yield (
        f"  detector    {len(part.findings)} races in {coverage['accesses']} accesses of "
        f"{coverage['ops']} ops and {coverage['collectives']} collectives; {covered}"
    )
    for finding in part.findings:
        yield f"              {finding}"
    yield (
        f"  bytes       losses, gradients and parameters equal to the run without overlap under "
        f"{len(part.schedules) - len(part.different)} of {len(part.schedules)} schedules of "
        f"{part.streams} streams"
    )
    for schedule, changed in part.different.items():
        yield f"              {schedule}: {', '.join(changed)} differ"
    yield f"  sent        gradients {_traffic(part.gradients, 'backward')}"
    yield f"              parameters {_traffic(part.parameters, 'step')}"
    memory = part.memory
    used = memory["slots"] + memory["shards"] + memory["deferred_peak"]
    yield (
        f"  memory      {used} bytes for gradients at most: buckets {memory['slots']}, own part "
        f"{memory['shards']}, waiting {memory['deferred_peak']}; bound {memory['bound']}"
    )
    yield f"              {part.late_allocations} device allocations after the first step"
    if part.edges:
        yield "  edges       left out, one at a time:"
        yield from (f"    {line}" for line in edge_table(part.edges))
    for failure in part.failures():
        yield f"  FAILED      {failure}"


def _traffic(traffic: Traffic, unit: str) -> str:
    times = f", {traffic.sent / traffic.bound:.2f} times the bound" if traffic.bound else ""
    judged = "" if traffic.is_claimed else "; not judged, this reducer does not claim the bound"
    return (
        f"{traffic.sent} bytes per rank and {unit}; bound {traffic.bound}, padding "
        f"{traffic.padding}{times}{judged}"
    )


def edge_table(edges: tuple[EdgeProof, ...]) -> Iterator[str]:
    """Return the edges as a Markdown table."""
    yield "| edge left out | races found | first of them | bytes change under | what changes |"
    yield "|---|---|---|---|---|"
    for proof in edges:
        yield (
            f"| {proof.edge} | {proof.findings} | {proof.example} | {proof.schedule or 'NONE'} | "
            f"{', '.join(proof.changed)} |"
        )
