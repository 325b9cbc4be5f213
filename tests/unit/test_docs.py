"""What the documentation tells people to install."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built_with(text: str) -> set[str]:
    """The packages that are installed before the native parts are built, without versions."""
    joined = text.replace("\\\n", " ")
    line = next(line for line in joined.splitlines() if "pybind11" in line and "pip" in line)
    named = line.partition("pip install")[2].replace('"', " ").split()
    return {re.split("[=<>]", package)[0] for package in named}


def test_the_workflow_builds_with_what_the_readme_installs() -> None:
    """Without CUDA's headers the build leaves the virtual GPU out and still succeeds."""
    readme = built_with((ROOT / "README.md").read_text())

    assert readme == {"setuptools", "pybind11", "nvidia-cuda-runtime", "nvidia-cuda-crt"}
    assert built_with((ROOT / "docs" / "virtual-gpu.md").read_text()) == readme
