"""How `streamguard run` treats the command: status, signals, streams."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, LIMIT_S, clean_environment, streamguard, summary


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 67), ("exit 5", 5), ("kill -KILL $$", 137), ("kill -TERM $$", 143)],
)
def test_the_commands_own_status_comes_first(tmp_path: Path, script: str, status: int) -> None:
    """Not 0: as a shell gives it. 0: our verdict, here that nothing was checked."""
    result = streamguard("run", "--", "sh", "-c", script, cwd=tmp_path)

    assert result.returncode == status
    assert summary(result.stderr).endswith("status=checked-nothing")


def test_input_and_output_are_the_commands_own(tmp_path: Path) -> None:
    """What the command prints is not touched; the report goes to stderr."""
    result = subprocess.run(
        [*COMMAND, "run", "--", "cat"],
        cwd=tmp_path,
        env=clean_environment(),
        input="through\n",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )

    assert result.stdout == "through\n"
    assert list(tmp_path.iterdir()) == []


def test_options_of_the_command_are_its_own(tmp_path: Path) -> None:
    """Everything behind `--` belongs to the command, also what looks like an option of ours."""
    result = streamguard("run", "--", "echo", "--json", "--", "-x", cwd=tmp_path)

    assert result.stdout == "--json -- -x\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_command_once(tmp_path: Path, number: signal.Signals) -> None:
    """A signal sent to streamguard goes to the command, which decides what to do with it."""
    script = (
        "import signal, sys\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])\n"
        "print('ready', flush=True)\n"
        f"signal.sigwait([{int(number)}])\n"
        f"print(signal.sigpending(), flush=True)\n"
        "sys.exit(7)\n"
    )
    process = subprocess.Popen(
        [*COMMAND, "run", "--", "python", "-c", script],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    output, error = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 7, error
    assert output == "set()\n"


def test_the_command_has_the_signal_mask_of_the_caller(tmp_path: Path) -> None:
    """Signals that streamguard blocks for itself are not blocked in the command."""
    script = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"

    result = streamguard("run", "--", "python", "-c", script, cwd=tmp_path)

    assert result.stdout == "set()\n"


def test_the_command_gets_the_variables(tmp_path: Path) -> None:
    """The ranks learn everything from the environment; the output directory is absolute."""
    result = streamguard(
        *("run", "--ranks", "0,3", "--accesses", "a[*]", "--accesses", "b", "--stacks", "leaf"),
        *("--output", "out", "--", "env"),
        cwd=tmp_path,
        environ=clean_environment(STREAMGUARD_EXIT="1"),
    )

    values = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    assert values["STREAMGUARD"] == "1"
    assert values["STREAMGUARD_RANKS"] == "0,3"
    assert values["STREAMGUARD_ACCESSES"] == "a[*],b"
    assert values["STREAMGUARD_STACKS"] == "leaf"
    assert values["STREAMGUARD_OUTPUT"] == os.fspath(tmp_path / "out")
    assert "STREAMGUARD_EXIT" not in values
