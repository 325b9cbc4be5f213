"""The stand-in for the CUDA toolkit answers for a machine without one, and only there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from streamguard.vgpu import toolkit


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(variable, "")  # so that what the test sets is undone
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolkit, "_INSTALLED", tmp_path / "cuda")
    return monkeypatch


def home() -> str | None:
    return os.environ.get("CUDA_HOME")


def test_a_bare_machine_gets_an_nvcc_that_names_the_release(
    bare_machine: pytest.MonkeyPatch,
) -> None:
    """What DeepSpeed parses: the word after `release`, up to the comma."""
    toolkit.provide()
    shown = subprocess.run(["/bin/sh", f"{home()}/bin/nvcc", "-V"], capture_output=True, text=True)

    words = shown.stdout.split()
    assert words[words.index("release") + 1] == "13.0,"


def test_it_refuses_to_compile_and_says_what_to_install(bare_machine: pytest.MonkeyPatch) -> None:
    """Nobody gets an empty object file from a compiler that is none."""
    toolkit.provide()
    shown = subprocess.run(
        ["/bin/sh", f"{home()}/bin/nvcc", "a.cu"], capture_output=True, text=True
    )

    assert shown.returncode == 1
    assert "install the CUDA toolkit" in shown.stderr


@pytest.mark.parametrize("found_by", ["CUDA_HOME", "PATH", "folder"])
def test_an_installed_toolkit_is_left_alone(
    found_by: str, bare_machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """CUDA_HOME, nvcc on the path and the usual folder each mean that there is one."""
    if found_by == "CUDA_HOME":
        bare_machine.setenv("CUDA_HOME", "/opt/cuda")
    elif found_by == "PATH":
        nvcc = tmp_path / "nvcc"
        nvcc.write_text("#!/bin/sh\n")
        nvcc.chmod(0o755)
    else:
        (tmp_path / "cuda").mkdir()

    toolkit.provide()

    assert home() == ("/opt/cuda" if found_by == "CUDA_HOME" else None)
