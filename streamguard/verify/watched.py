"""What the detector's coverage means for a certificate."""

from __future__ import annotations

from streamguard.report.model import Coverage

# An unsuccessful or ignored query orders nothing: counted among the gaps, but no access is missed.
_HARMLESS = "queries"


def coverage_of(coverage: Coverage) -> dict[str, int]:
    """Count what was seen and what was not, as `Subject` programs return it."""
    missed = sum(count for what, count in coverage.opaque if not what.startswith(_HARMLESS))
    return {
        "ops": coverage.ops,
        "accesses": coverage.accesses,
        "collectives": coverage.collectives,
        "waits": coverage.waits,
        "launches_observed": int(coverage.launches_observed),
        "opaque_launches": missed,
        "unregistered_kernels": coverage.unregistered_kernels,
    }
