"""One process with torch on the virtual GPU for all tests of a worker; ranks are its forks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamguard.verify.jobs import Jobs

ROOT = Path(__file__).resolve().parents[2]
DEVICES = 8


@pytest.fixture(scope="session")
def jobs() -> Iterator[Jobs]:
    """Run programs of tests.zero on up to eight ranks."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    with Jobs(
        devices=DEVICES,
        preload=[
            "tests.zero.training_programs",
            "tests.zero.misuse_programs",
            "streamguard.verify.own",
        ],
        environment=environment,
    ) as running:
        yield running
