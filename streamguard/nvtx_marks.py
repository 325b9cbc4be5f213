"""Marks in the NVTX domain `streamguard`: profilers show findings beside the kernels."""

from __future__ import annotations

from streamguard.report.model import Finding
from streamguard.report.wording import lane_text

DOMAIN = "streamguard"


def mark_finding(finding: Finding) -> None:
    """Mark the moment at which a pair was first seen; without a profiler it costs nothing."""
    import nvtx

    is_race = finding.inserted is None
    nvtx.mark(message=_message(finding), color="red" if is_race else "orange", domain=DOMAIN)


def _message(finding: Finding) -> str:
    first, second = finding.first, finding.second
    pair = f"{second.op} on {lane_text(second)} after {first.op} on {lane_text(first)}"
    if finding.inserted is None:
        return f"{finding.code}: nothing orders {pair}"
    return f"inserted wait ({finding.code}): {pair}"
