"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cli.command import clean_environment, run

TESTS = """
import pytest
import torch


def race(*, is_repaired):
    side_stream = torch.cuda.Stream()
    values = torch.zeros(16, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side_stream):
        values.add_(1)
    if is_repaired:
        torch.cuda.current_stream().wait_stream(side_stream)
    values.mul(2)
    torch.cuda.synchronize()


def test_racy(assert_no_races):
    race(is_repaired=False)


def test_racy_again(assert_no_races):
    race(is_repaired=False)


def test_repaired(assert_no_races):
    race(is_repaired=True)
    assert assert_no_races.findings() == ()


def test_idle(assert_no_races):
    torch.ones(2).add_(1)


def test_own_failure(assert_no_races):
    race(is_repaired=False)
    assert "own" == "failure"


def test_skipped(assert_no_races):
    pytest.skip("not today")


def test_unwatched():
    race(is_repaired=False)


def test_outcome_is_checked():
    assert not torch.cuda.is_available() or torch.cuda.device_count() == 2
"""

LOOPS = """
import torch


def loop(*, is_repaired):
    side_stream = torch.cuda.Stream()
    values = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    for i in range(4):
        with torch.cuda.stream(side_stream):
            values.fill_(2.0 + i)
        if is_repaired:
            torch.cuda.current_stream().wait_stream(side_stream)
        values.mul(2)
        torch.cuda.synchronize()


def test_racy(assert_no_races):
    loop(is_repaired=False)


def test_repaired(assert_no_races):
    loop(is_repaired=True)
"""

MODELS = """
import pytest
import torch


side_stream = torch.cuda.Stream()


def race():
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)).cuda()
    torch.cuda.synchronize()
    with torch.cuda.stream(side_stream):
        model[1].weight.data.mul_(2)
    model(torch.ones(4, 16, device="cuda"))
    torch.cuda.synchronize()


@pytest.mark.parametrize("time", [1, 2])
def test_racy(assert_no_races, time):
    race()
"""


def _pytest(
    directory: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    installed = any(point.name == "streamguard" for point in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", "streamguard.pytest_plugin")
    return run(
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *arguments),
        cwd=directory,
        environ=environ,
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with tests and no configuration."""
    (tmp_path / "test_streams.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_each_test_is_judged_by_itself(directory: Path) -> None:
    """Races and idle tests fail; the repaired, the skipped and the unwatched do not."""
    result = _pytest(directory, "--streamguard-vgpu", "2", "-rA")

    outcomes = {
        line.split("::")[1].split(" ")[0]: line.split(" ")[0]
        for line in result.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR"))
    }
    assert result.returncode == 1, result.stdout
    assert outcomes == {
        "test_racy": "FAILED",
        "test_racy_again": "FAILED",
        "test_repaired": "PASSED",
        "test_idle": "FAILED",
        "test_own_failure": "FAILED",
        "test_unwatched": "PASSED",
        "test_outcome_is_checked": "PASSED",
    }
    assert "4 failed, 3 passed, 1 skipped" in result.stdout


def test_the_report_is_the_text_of_the_failure(directory: Path) -> None:
    """Both accesses, the repair and the summary are in it, and no traceback of ours."""
    result = _pytest(directory, "--streamguard-vgpu", "2", "-k", "test_racy_again")

    assert "SG001 read-after-write race: aten::mul on default stream (device 0)" in result.stdout
    assert "test_streams.py:14 in race" in result.stdout
    assert "wait_stream(<stream" in result.stdout
    assert "SUMMARY streamguard races=1 misuses=0 ranks=1/1" in result.stdout
    assert "pytest_plugin.py" not in result.stdout


def test_checking_nothing_fails_with_the_way_out(directory: Path) -> None:
    """A test without device work proves nothing, and says so."""
    result = _pytest(directory, "--streamguard-vgpu", "2", "-k", "test_idle")

    assert result.returncode == 1
    assert "assert_no_races checked nothing" in result.stdout
    assert "--streamguard-vgpu N" in result.stdout


def test_a_tests_own_failure_stays_and_its_races_are_shown(directory: Path) -> None:
    """The assertion is the failure; the report is a section beside it."""
    result = _pytest(directory, "--streamguard-vgpu", "2", "-k", "test_own_failure")

    assert "AssertionError: assert 'own' == 'failure'" in result.stdout
    assert "Captured streamguard call" in result.stdout
    assert "SG001" in result.stdout
    assert "1 failed" in result.stdout


def test_the_virtual_gpu_is_loaded_before_conftest_files(directory: Path) -> None:
    """A conftest file may import torch and use the device at once."""
    (directory / "conftest.py").write_text(
        "import torch\nassert torch.cuda.device_count() == 2, torch.cuda.device_count()\n"
    )

    result = _pytest(directory, "--streamguard-vgpu", "2", "-k", "test_repaired")

    assert result.returncode == 0, result.stdout + result.stderr


def test_it_refuses_when_torch_is_imported_already(directory: Path) -> None:
    """A plugin that imports torch first makes the option useless: said, not ignored."""
    (directory / "early.py").write_text("import sys, types\nsys.modules['torch'] = sys\n")
    environ = clean_environment()
    environ["PYTHONPATH"] += f":{directory}"

    result = _pytest(directory, "-p", "early", "--streamguard-vgpu", "2", environ=environ)

    assert result.returncode == 4
    assert "torch is imported already" in result.stderr
    assert "STREAMGUARD_VGPU=2" in result.stderr


@pytest.mark.parametrize("devices", ["0", "-1", "two"])
def test_a_wrong_number_is_a_usage_error(directory: Path, devices: str) -> None:
    """pytest's own status for usage errors, and no test runs."""
    result = _pytest(directory, f"--streamguard-vgpu={devices}")

    assert result.returncode == 4
    assert devices in result.stderr
    assert "passed" not in result.stdout


def test_the_variable_and_the_option_must_agree(directory: Path) -> None:
    """The start-up file has loaded one number of devices; the option cannot change it."""
    environ = clean_environment(STREAMGUARD_VGPU="2")

    same = _pytest(directory, "--streamguard-vgpu", "2", "-k", "test_repaired", environ=environ)
    other = _pytest(directory, "--streamguard-vgpu", "3", environ=environ)

    assert same.returncode == 0, same.stdout + same.stderr
    assert other.returncode == 4
    assert "this process has 2 virtual devices" in other.stderr


def test_a_watched_test_inside_a_watched_program(directory: Path) -> None:
    """Under STREAMGUARD=1 the fixture is a window: a repaired test passes beside racy ones."""
    environ = clean_environment(STREAMGUARD="1", STREAMGUARD_VGPU="2")

    result = _pytest(
        directory, "-k", "test_unwatched or test_racy or test_repaired", "-rA", environ=environ
    )

    assert "PASSED test_streams.py::test_repaired" in result.stdout
    assert "FAILED test_streams.py::test_racy_again" in result.stdout
    assert "SUMMARY streamguard races=3 misuses=0" in result.stderr


def test_races_are_tried_when_asked(directory: Path) -> None:
    """With the option the failure says whether bytes changed; without it nothing is tried."""
    (directory / "test_loops.py").write_text(LOOPS)
    command = ("--streamguard-vgpu", "2", "test_loops.py")

    tried = _pytest(directory, *command, "--streamguard-confirm")
    watched = _pytest(directory, *command)

    assert "1 failed, 1 passed" in tried.stdout
    assert "confirm   seen: bytes changed in 1 of" in tried.stdout
    assert " confirmed=1 " in tried.stdout
    assert "1 failed, 1 passed" in watched.stdout
    assert "confirm" not in watched.stdout


def test_trying_needs_a_process_that_is_not_watched_in_another_mode(directory: Path) -> None:
    """Under STREAMGUARD=1 the option could not take effect: said, not ignored."""
    environ = clean_environment(STREAMGUARD="1", STREAMGUARD_VGPU="2")

    result = _pytest(directory, "--streamguard-confirm", environ=environ)

    assert result.returncode == 4
    assert "set STREAMGUARD=confirm instead" in result.stderr
    assert "passed" not in result.stdout


@pytest.mark.parametrize(
    ("filters", "outcome"),
    [
        (("--streamguard-tensors", "1.*"), "2 failed"),
        (("--streamguard-modules", "0"), "2 passed"),
        (("--streamguard-modules", "absent"), "2 failed"),
    ],
    ids=["listed", "left out", "unmatched"],
)
def test_only_races_that_a_filter_lists_fail_a_test(
    directory: Path, filters: tuple[str, str], outcome: str
) -> None:
    """Every test is judged by its own races, also where the same lines raced before."""
    (directory / "test_models.py").write_text(MODELS)

    result = _pytest(directory, "--streamguard-vgpu", "2", "test_models.py", *filters)

    assert outcome in result.stdout.splitlines()[-1]
    assert ("fits nothing in this test" in result.stdout) == (filters[1] == "absent")
