"""A replayed trace gives the very report that the program's own results give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.recorded import Run, races, run_traced

# Expected by hand: what the four parts of the program do wrong. Autograd adds both gradients of
# `weight * weight` in place before the program divides them.
RACY = {
    ("SG001", "aten::add_", "aten::mul"),
    ("SG005", "aten::copy_", "aten::add_"),
    ("SG004", "aten::mul_", "aten::fill_"),
    ("SG003", "aten::add_", "aten::div_"),
}


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The racy program in one process."""
    return run_traced(tmp_path_factory.mktemp("racy"))


def _pairs(lines: str) -> set[tuple[object, object, object]]:
    return {
        (race["code"], race["first"]["op"], race["second"]["op"])  # type: ignore[index]  # JSON
        for race in races(lines)
    }


def test_a_racy_program_is_replayed_to_the_same_report(racy: Run) -> None:
    """Codes, pairs, streams, bytes, lines, steps and counts: the whole text and all of the JSON."""
    status, text, errors = racy.replayed()

    assert (racy.status, status, errors) == (66, 66, "")
    assert text == racy.shown()
    assert racy.replayed("--json")[1] == racy.shown("--json")
    assert _pairs(racy.replayed("--json")[1]) == RACY


def test_the_repaired_twin_is_replayed_clean(tmp_path: Path) -> None:
    """With the waits in place both say clean, with the same coverage."""
    run = run_traced(tmp_path, "repaired")

    status, text, errors = run.replayed()

    assert (run.status, status, errors) == (0, 0, "")
    assert text == run.shown()
    assert "status=clean" in text


def test_the_full_history_has_the_findings_of_the_bounded_one(racy: Run) -> None:
    """`--history full` may list more pairs, never fewer."""
    status, lines, _ = racy.replayed("--json", "--history", "full")

    assert status == 66
    assert _pairs(lines) >= RACY


def test_two_ranks_and_listed_accesses_are_replayed(tmp_path: Path) -> None:
    """A trace for each rank; both together give the job's report with its collective."""
    run = run_traced(tmp_path, ranks=2)

    status, text, errors = run.replayed()

    assert (run.status, status, errors) == (66, 66, "")
    assert [path.name.split("-rank-")[1].split("-pid-")[0] for path in run.files] == [
        "0-attempt-0",
        "1-attempt-0",
    ]
    assert text == run.shown()
    assert run.replayed("--json")[1] == run.shown("--json")
    assert _pairs(run.replayed("--json")[1]) == RACY | {("SG006", "c10d::allreduce_", "aten::mul_")}


def test_two_repaired_ranks_are_replayed_clean(tmp_path: Path) -> None:
    """The twin of the two ranks."""
    run = run_traced(tmp_path, "repaired", ranks=2)

    assert (run.status, run.replayed()[0]) == (0, 0)
    assert run.replayed()[1] == run.shown()


def test_a_killed_program_leaves_a_trace_up_to_its_last_whole_batch(tmp_path: Path) -> None:
    """After SIGKILL the findings are those of the rank's own file; the end is missed by name."""
    run = run_traced(tmp_path, "kill")

    status, text, errors = run.replayed()

    assert (run.status, status, errors) == (137, 66, "")
    assert _pairs(run.replayed("--json")[1]) == RACY
    assert "incomplete: rank 0 wrote no summary" in text


def test_a_full_disk_ends_the_trace_and_nothing_else(tmp_path: Path) -> None:
    """The program's status and findings stay; the report and standard error say what is missing."""
    run = run_traced(tmp_path, "full")

    missing = f"cannot write the trace to {tmp_path / 'trace'}: File too large"
    assert run.status == 66, run.text
    assert run.text.count(f"streamguard: {missing}") == 1
    assert f"incomplete: rank 0: {missing}" in run.shown()
    assert _pairs(run.shown("--json")) == RACY
    status, text, errors = run.replayed()
    assert (status, errors) == (66, "")
    assert "incomplete: rank 0 wrote no summary" in text
