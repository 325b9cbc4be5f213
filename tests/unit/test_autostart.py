"""Tests of `streamguard.autostart` that need no torch."""

from __future__ import annotations

import sys

import pytest

from streamguard import autostart


@pytest.mark.parametrize(
    ("command", "is_own"),
    [
        (["python", "-m", "streamguard.cli.main", "run"], True),
        (["python", "-u", "-X", "dev", "-m", "streamguard.cli.main"], True),
        (["/venv/bin/python", "/venv/bin/streamguard", "run", "--", "python"], True),
        (["python", "train.py", "streamguard"], False),
        (["python", "-c", "import streamguard"], False),
        (["python", "-m", "pytest", "-m", "streamguard.cli.main"], False),
        (["python", "-W", "streamguard", "train.py"], False),
        (["python"], False),
    ],
)
def test_the_command_itself_is_never_watched(
    command: list[str], is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under an exported STREAMGUARD=1 only the wrapped program is watched."""
    monkeypatch.setattr(sys, "orig_argv", command)

    assert autostart._is_own_command() is is_own
