"""Jobs that hang because of one rank: the report names it, and tells why it is waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectives.launch import launch

RANKS = 4
HANG_AFTER_S = "2"
# What is said of whom. Where two ranks wait for each other both are named.
EXPECTED = {
    "exits": ("ended", [2]),
    "raises": ("ended", [2]),
    "is-killed": ("dead", [2]),
    "is-stopped": ("dead", [2]),
    "sleeps": ("slow", [2]),
    "order-of-groups": ("program", [2]),
    "missing-last-call": ("program", [2]),
    "wrong-peer": ("program", [0, 2]),
    "recv-without-send": ("program", [2]),
    "message-size": ("mismatch", [0, 2]),
    "message-dtype": ("mismatch", [0, 2]),
    "membership": ("membership", [0, 2]),
}
QUICK = {("gloo", "raises"), ("gloo", "sleeps"), ("nccl", "order-of-groups")}


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        pytest.param(b, n, marks=[] if (b, n) in QUICK else [pytest.mark.long])
        for b in ("gloo", "nccl")
        for n in EXPECTED
    ],
)
def test_the_report_names_the_rank_at_fault(backend: str, name: str, tmp_path: Path) -> None:
    """The report has the right kind and exactly the ranks at fault."""
    kind, culprits = EXPECTED[name]
    outcome = launch(
        "hang.py", backend, name, "wrong", ranks=RANKS, output=tmp_path, awaited=kind,
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_HANG_AFTER=HANG_AFTER_S,
        STREAMGUARD_VGPU_VALUES="0",
    )  # fmt: skip
    # On a busy machine somebody may be slow at first.
    reports = [r for r in outcome.reports if r["kind"] != "slow" or kind == "slow"]
    assert reports, outcome.text[-3000:]
    report = reports[0]

    assert (report["kind"], report["culprits"]) == (kind, culprits), report["text"]
    assert "hang.py:" in str(report["text"]) or report["kind"] == "membership"
    if backend == "nccl" and kind == "program" and name != "recv-without-send":
        assert "NCCL stream of " in str(report["text"])


@pytest.mark.parametrize("name", ["is-interrupted", "all-fail"])
def test_ends_that_no_rank_is_to_blame_for_are_not_reported(name: str, tmp_path: Path) -> None:
    """The others fail in a call that the interrupted rank never made; or all fail alike."""
    outcome = launch(
        "hang.py", "gloo", name, "wrong", ranks=RANKS, output=tmp_path,
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_VGPU_VALUES="0",
    )  # fmt: skip

    assert 0 not in outcome.statuses, outcome.text[-3000:]
    assert outcome.reports == []


@pytest.mark.long
def test_all_ranks_leave_a_hang_with_an_error(tmp_path: Path) -> None:
    """--on-hang raise: every main thread gets DesyncError where it waits; the job ends."""
    outcome = launch(
        "hang.py", "nccl", "order-of-groups", "wrong", ranks=RANKS, output=tmp_path,
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_HANG_AFTER=HANG_AFTER_S,
        STREAMGUARD_ON_HANG="raise", STREAMGUARD_VGPU_VALUES="0",
    )  # fmt: skip

    assert [s for s in outcome.statuses if s in (0, -9)] == [], outcome.text[-3000:]
    for text in outcome.texts:
        assert "DesyncError: streamguard: a collective waits in vain (program)" in text
        assert "hang.py" in text


@pytest.mark.long
def test_all_ranks_end_with_the_status_of_a_fault(tmp_path: Path) -> None:
    """--on-hang abort: every rank ends with 66."""
    outcome = launch(
        "hang.py", "gloo", "order-of-groups", "wrong", ranks=RANKS, output=tmp_path,
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_HANG_AFTER=HANG_AFTER_S,
        STREAMGUARD_ON_HANG="abort", STREAMGUARD_VGPU_VALUES="0",
    )  # fmt: skip

    assert outcome.statuses == [66] * RANKS, outcome.text[-3000:]


@pytest.mark.parametrize("backend", ["gloo", pytest.param("nccl", marks=pytest.mark.long)])
def test_the_twins_stay_silent(backend: str, tmp_path: Path) -> None:
    """The same programs with the one rank doing what the others do: no report of any kind."""
    outcome = launch(
        "hang.py", backend, "all", "clean", ranks=RANKS, output=tmp_path,
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_HANG_AFTER="60",
        STREAMGUARD_VGPU_VALUES="0",
    )  # fmt: skip

    assert outcome.statuses == [0] * RANKS, outcome.text[-3000:]
    assert outcome.reports == []
    assert "streamguard:" not in outcome.text
