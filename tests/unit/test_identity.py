"""Tests of `streamguard.identity`."""

from __future__ import annotations

import os
import re
import socket

import pytest

from streamguard.config import Config
from streamguard.identity import (
    environment_rank,
    host_hash,
    new_run_id,
    rank_start,
    run_id_of_step,
)

_LAUNCHERS = re.compile(r"(?:WORLD|LOCAL|RANK|OMPI|PMI|MPI|SLURM)")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without what a launcher around the tests may have set."""
    for name in list(os.environ):
        if _LAUNCHERS.match(name):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (0, 1, 0, 1)),
        (
            {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"},
            (5, 8, 1, 4),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            (3, 4, 1, 2),
        ),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_LOCALID": "0"}, (2, 3, 0, 3)),
        (
            {
                "SLURM_PROCID": "10",
                "SLURM_NTASKS": "11",
                "SLURM_LOCALID": "2",
                "SLURM_NODEID": "2",
                "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
            },
            (10, 11, 2, 3),
        ),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
            (1, 2, 0, 2),
        ),
    ],
)
def test_launchers_tell_the_rank(
    environ: dict[str, str], expected: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchrun's variables count first, then those of Open MPI, MPICH and SLURM."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    start = rank_start(Config())

    assert (start.rank, start.world_size, start.local_rank, start.local_world_size) == expected
    assert environment_rank(os.environ) == expected[0]


def test_the_start_record_names_no_host() -> None:
    """The hash is short and does not contain the host's name."""
    start = rank_start(Config())

    assert re.fullmatch(r"[0-9a-f]{12}", start.host)
    assert start.host == host_hash()
    assert socket.gethostname() not in start.host


def test_the_configuration_is_part_of_the_start_record() -> None:
    """Run, virtual devices, schedule and selected ranks are as configured."""
    config = Config(run="run-9", vgpu_devices=2, vgpu_schedule="lazy", ranks=frozenset({3, 1}))

    start = rank_start(config)

    assert (start.run, start.virtual_devices, start.schedule) == ("run-9", 2, "lazy")
    assert start.selected_ranks == (1, 3)
    assert start.pid == os.getpid()


def test_run_ids_are_accepted_as_run_ids() -> None:
    """A new id is a valid STREAMGUARD_RUN and differs from the one before."""
    from streamguard.config import parse

    first, second = new_run_id(), new_run_id()

    assert parse({"STREAMGUARD_RUN": first}).run == first
    assert first != second


STEP = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_TASKS": "8"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"SLURM_PROCID": "0"}, "slurm-77.3"),
        ({"SLURM_PROCID": "7"}, "slurm-77.3"),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "4"}, "slurm-77.4"),
        ({"SLURM_PROCID": "0", "SLURM_RESTART_COUNT": "2"}, "slurm-77.3-restart2"),
        # A shell for interactive work: what is started in it one after the other are several runs.
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({}, None),
    ],
)
def test_the_tasks_of_a_slurm_step_agree_on_a_run(
    changes: dict[str, str], expected: str | None
) -> None:
    """Tasks share it; another step, and the same job queued again, have another."""
    run = run_id_of_step({**STEP, **changes})

    assert run == expected
    assert run is None or re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._-]*", run)


def test_a_restart_is_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun counts how often it started the workers anew."""
    assert rank_start(Config()).attempt == 0
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert rank_start(Config()).attempt == 2
