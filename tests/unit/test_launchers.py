"""Tests of how the variables reach other nodes: `streamguard.cli.launchers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.cli.launchers import forwarding

OURS = {"STREAMGUARD": "1", "STREAMGUARD_RUN": "run-1"}


def _program(directory: Path, name: str, answer: str) -> str:
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", ["mpirun", "mpiexec"])
def test_open_mpi_is_told_each_variable(tmp_path: Path, name: str) -> None:
    """`-x NAME` comes right after the launcher; values stay in the environment."""
    program = _program(tmp_path, name, "mpirun (Open MPI) 4.1.4")

    with forwarding([program, "-n", "2", "python", "a.py"], {**OURS, "HOME": "/"}) as launch:
        command = launch.command

    assert command == (
        *(program, "-x", "STREAMGUARD", "-x", "STREAMGUARD_RUN"),
        *("-n", "2", "python", "a.py"),
    )


def test_other_mpi_is_left_alone(tmp_path: Path) -> None:
    """MPICH and Intel MPI pass everything on and know no `-x`."""
    program = _program(tmp_path, "mpirun", "HYDRA build details: Version: 4.0")
    command = [program, "-n", "2", "python", "a.py"]

    with forwarding(command, OURS) as launch:
        assert launch.command == tuple(command)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["srun", "-n2", "python"], ["srun", "-n2", "python"]),
        (["srun", "--export=ALL,A=1", "python"], ["srun", "--export=ALL,A=1", "python"]),
        (
            ["srun", "--export=A", "python"],
            ["srun", "--export=A,STREAMGUARD,STREAMGUARD_RUN", "python"],
        ),
        (
            ["srun", "--export=NONE", "python"],
            ["srun", "--export=STREAMGUARD,STREAMGUARD_RUN", "python"],
        ),
    ],
)
def test_srun_is_told_only_where_it_restricts(given: list[str], expected: list[str]) -> None:
    """SLURM passes everything on by default."""
    with forwarding(given, OURS) as launch:
        assert list(launch.command) == expected


@pytest.mark.parametrize(
    "command",
    [
        ["deepspeed", "train.py"],
        ["/venv/bin/python", "/venv/bin/deepspeed", "train.py"],
        ["python3", "-m", "deepspeed.launcher.runner", "train.py"],
    ],
)
def test_deepspeed_gets_a_file_with_the_users_entries_and_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """The home's entries, then the directory's, then ours; the file is gone afterwards."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / ".deepspeed_env").write_text("NCCL_DEBUG=INFO\nA=home\n")
    (work / ".deepspeed_env").write_text("A=work\n\nB=x=y")
    monkeypatch.chdir(work)

    with forwarding(command, {**OURS, "HOME": str(home)}) as launch:
        path = Path(launch.environ["DS_ENV_FILE"])
        lines = path.read_text().splitlines()
        is_absolute = path.is_absolute()

    assert launch.command == tuple(command)
    assert is_absolute
    assert lines == [
        "NCCL_DEBUG=INFO",
        "A=home",
        "A=work",
        "B=x=y",
        "STREAMGUARD=1",
        "STREAMGUARD_RUN=run-1",
    ]
    assert not path.exists()


def test_the_users_own_deepspeed_file_is_kept(tmp_path: Path) -> None:
    """DS_ENV_FILE names another file; its entries come first, once."""
    own = tmp_path / "own"
    own.write_text("C=3\n")

    with forwarding(["deepspeed", "a.py"], {"DS_ENV_FILE": str(own), **OURS}) as launch:
        lines = Path(launch.environ["DS_ENV_FILE"]).read_text().splitlines()

    assert lines == ["C=3", "STREAMGUARD=1", "STREAMGUARD_RUN=run-1"]


@pytest.mark.parametrize("command", [["torchrun", "a.py"], ["python", "deepspeed.py"]])
def test_other_commands_are_left_alone(command: list[str]) -> None:
    """They start local processes only, or pass the environment on."""
    with forwarding(command, OURS) as launch:
        assert launch.command == tuple(command)
        assert launch.environ == OURS
