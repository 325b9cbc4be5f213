"""Where results go is tried out before and after a run."""

from __future__ import annotations

from pathlib import Path

from streamguard.output_directory import problem_of


def test_a_directory_that_can_be_written_leaves_no_trace(tmp_path: Path) -> None:
    """Neither the probe file nor a directory made for it stays."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()

    assert (problem_of(old), problem_of(new)) == (None, None)
    assert (list(old.iterdir()), new.exists()) == ([], False)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """What the system says is passed on."""
    (tmp_path / "file").write_text("")

    assert problem_of(tmp_path / "file" / "out") == "Not a directory"


def test_a_place_where_nobody_can_write_is_a_problem() -> None:
    """Also for root, whom permission bits do not stop."""
    assert problem_of(Path("/proc/streamguard-results")) is not None
