"""A profiler's injected library hears of findings and inserted waits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import clean_environment, run

HERE = Path(__file__).parent
_RED, _ORANGE = "00ff0000", "00ffa500"


@pytest.fixture
def listener(tmp_path: Path) -> Path:
    """The library that a profiler would inject."""
    library = tmp_path / "listener.so"
    source = str(HERE / "nvtx_listener.c")
    command = ["gcc", "-Wall", "-Wextra", "-shared", "-fPIC", source, "-o", str(library)]
    subprocess.run(command, check=True)
    return library


@pytest.mark.parametrize(
    ("mode", "words", "expected"),
    [
        ("1", [], [f"streamguard {_RED} SG001: nothing orders "]),
        ("enforce", [], [f"streamguard {_ORANGE} inserted wait (SG001): "]),
        ("1", ["repaired"], []),
    ],
)
def test_marks_reach_the_listener(
    tmp_path: Path, listener: Path, mode: str, words: list[str], expected: list[str]
) -> None:
    """Red for a race, orange for an inserted wait, each with the pair; none for a clean program."""
    heard = tmp_path / "marks"
    environ = clean_environment(
        STREAMGUARD=mode,
        STREAMGUARD_VGPU="1",
        NVTX_INJECTION64_PATH=str(listener),
        NVTX_LISTENER_OUTPUT=str(heard),
    )

    result = run(
        "python", str(HERE / "programs" / "two_streams.py"), *words, cwd=tmp_path, environ=environ
    )

    pair = "aten::mul on default stream (device 0) after aten::add_ on stream 1 (device 0)"
    marks = heard.read_text().splitlines() if heard.exists() else []
    assert marks == [start + pair for start in expected], result.stderr
