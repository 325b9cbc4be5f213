"""Wrong usage ends with status 2 before anything starts, and says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import clean_environment, run, streamguard


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["banana"], "banana"),
        (["run"], "no command to watch"),
        (["run", "--banana", "--", "true"], "--banana"),
        (["run", "--schedule", "fast", "--vgpu", "1", "--", "touch", "ran"], "--schedule 'fast'"),
        (["run", "--schedule", "lazy", "--", "touch", "ran"], "--vgpu N"),
        (["run", "--vgpu", "none", "--", "touch", "ran"], "--vgpu 'none'"),
        (["run", "--ranks", "0,x", "--", "touch", "ran"], "--ranks '0,x'"),
        (["run", "--stacks", "most", "--", "touch", "ran"], "--stacks 'most'"),
        (["run", "--error-exitcode", "256", "--", "touch", "ran"], "'256'"),
        (["run", "--output", "file/inside", "--", "touch", "ran"], "file/inside: Not a directory"),
        (["run", "--enforce", "--confirm", "--", "touch", "ran"], "give one of them"),
        (["run", "--", "no-such-command-here"], "no-such-command-here"),
        (["explain", "SG999"], "SG999"),
        (["merge", "absent"], "absent"),
        (["merge"], "DIR"),
        (["show"], "streamguard-*"),
        (["show", "absent"], "absent"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    """Status 2, the wrong value in the message, and the command was not started."""
    (tmp_path / "file").write_text("")

    result = streamguard(*arguments, cwd=tmp_path)

    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "ran").exists()


def test_a_wrong_variable_is_refused_by_run(tmp_path: Path) -> None:
    """Variables from outside are checked as well."""
    environ = clean_environment(STREAMGUARD_VGPU_MEMORY_MB="much")

    result = streamguard("run", "--", "touch", "ran", cwd=tmp_path, environ=environ)

    assert result.returncode == 2
    assert "STREAMGUARD_VGPU_MEMORY_MB='much'" in result.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("variable", "value"), [("STREAMGUARD", "banana"), ("STREAMGUARD_VGPU", "many")]
)
def test_a_wrong_variable_stops_a_program_before_its_first_line(
    tmp_path: Path, variable: str, value: str
) -> None:
    """Running on unwatched, without a word, would look like a clean run."""
    environ = clean_environment(**{variable: value})

    result = run("python", "-c", "print('ran')", cwd=tmp_path, environ=environ)

    assert result.returncode == 2
    assert result.stdout == ""
    assert f"{variable}={value!r}" in result.stderr


@pytest.mark.parametrize("subcommand", ["run", "show", "merge", "explain", "vgpu"])
def test_help(tmp_path: Path, subcommand: str) -> None:
    """Every subcommand explains itself."""
    result = streamguard(subcommand, "--help", cwd=tmp_path)

    assert result.returncode == 0
    assert f"streamguard {subcommand}" in result.stdout


def test_explain(tmp_path: Path) -> None:
    """A code is explained whatever its case, with its repair."""
    result = streamguard("explain", "sg006", cwd=tmp_path)

    assert result.returncode == 0
    assert result.stdout.startswith("SG006: collective buffer touched before")
    assert "work.wait()" in result.stdout


def test_vgpu_info(tmp_path: Path) -> None:
    """It loads the virtual GPU that the variables ask for and says what it is."""
    environ = clean_environment(STREAMGUARD_VGPU="3", STREAMGUARD_VGPU_SCHEDULE="lazy")

    result = streamguard("vgpu", "info", cwd=tmp_path, environ=environ)

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "devices: 3, 16384 MiB each"
    assert "schedule: lazy" in result.stdout
    assert "libcudart.so." in result.stdout
