"""When NCCL is told to load streamguard's profiler plugin, and when another one is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.hooks import nccl_profiler
from streamguard.hooks.nccl_profiler import LIBRARY, other_plugin, uncounted, with_plugin

OURS = {"NCCL_PROFILER_PLUGIN": str(LIBRARY)}


@pytest.fixture(autouse=True)
def _no_system_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_profiler, "_SYSTEM_FILE", tmp_path / "system.conf")


def test_it_is_set_where_nothing_else_is() -> None:
    """Also over an empty value, and a second time."""
    assert with_plugin({"A": "b"}) == {"A": "b", **OURS}
    assert with_plugin({"NCCL_PROFILER_PLUGIN": ""}) == OURS
    assert with_plugin(OURS) == OURS


def test_a_variable_of_the_user_stays() -> None:
    """Whatever it says."""
    for value in ("none", "mine", "/path/to/mine.so"):
        environ = {"NCCL_PROFILER_PLUGIN": value}

        assert with_plugin(environ) == environ
        assert uncounted(environ, is_loaded=False) == f"NCCL's profiler plugin is {value}"


def test_a_file_that_nccl_reads_counts_as_the_users_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NCCL_CONF_FILE replaces ~/.nccl.conf; the system's file comes last; comments do not count."""
    home, named, system = tmp_path / ".nccl.conf", tmp_path / "named", tmp_path / "system"
    monkeypatch.setattr(nccl_profiler, "_SYSTEM_FILE", system)
    environ = {"HOME": str(tmp_path)}
    assert other_plugin(environ) == ""

    system.write_text("NCCL_DEBUG=WARN\nNCCL_PROFILER_PLUGIN=of_system\n")
    assert other_plugin(environ) == f"of_system ({system})"
    home.write_text("#NCCL_PROFILER_PLUGIN=old\nNCCL_PROFILER_PLUGIN=of_home\n")
    assert other_plugin(environ) == f"of_home ({home})"
    named.write_text("NCCL_PROFILER_PLUGIN=named\n")
    assert other_plugin({**environ, "NCCL_CONF_FILE": str(named)}) == f"named ({named})"
    assert with_plugin(environ) == environ


def test_a_library_of_nccls_default_name_stays(tmp_path: Path) -> None:
    """NCCL loads libnccl-profiler.so where nobody says anything else."""
    environ = {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}
    assert with_plugin(environ) == {**environ, **OURS}

    library = tmp_path / "libnccl-profiler.so"
    library.touch()

    assert other_plugin(environ) == str(library)
    assert with_plugin(environ) == environ


def test_a_path_that_nccl_would_cut_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 254 bytes."""
    monkeypatch.setattr(nccl_profiler, "_LONGEST_PATH", len(str(LIBRARY)) - 1)

    assert with_plugin({}) == {}
