"""What profilers are told of a finding."""

from __future__ import annotations

from dataclasses import replace

import nvtx
import pytest

from streamguard.nvtx_marks import mark_finding
from streamguard.report.build import build_finding
from streamguard.report.model import InsertedWaits
from tests.unit.raw_findings import finding


def test_race_and_inserted_wait_are_marked_in_the_domain_streamguard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each mark names the code and the pair; the two kinds differ in colour."""
    marks: list[dict[str, str]] = []
    monkeypatch.setattr(nvtx, "mark", lambda **mark: marks.append(mark))
    race = build_finding(finding())

    mark_finding(race)
    mark_finding(replace(race, inserted=InsertedWaits(running=0, timed=0, waited_ms=0.0)))

    pair = "aten::copy_ on default stream (device 0) after c10d::allreduce_ on reduction_stream"
    assert marks == [
        {"message": f"SG002: nothing orders {pair}", "color": "red", "domain": "streamguard"},
        {"message": f"inserted wait (SG002): {pair}", "color": "orange", "domain": "streamguard"},
    ]
