"""Two real ranks on the virtual GPU, under torchrun and under torch.multiprocessing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import clean_environment, run, streamguard, summary

PROGRAMS = Path(__file__).parent / "programs"
TORCHRUN = ("torchrun", "--nproc-per-node", "2", "--standalone")
TWO_STREAMS = (*TORCHRUN, str(PROGRAMS / "two_streams.py"))
WATCHED = {"STREAMGUARD": "1", "STREAMGUARD_VGPU": "2"}


def _files(directory: Path) -> list[str]:
    return sorted(path.name.rsplit("-", 1)[0] for path in directory.glob("rank-*.jsonl"))


def test_two_ranks_make_one_report(tmp_path: Path) -> None:
    """The same pair on both ranks is one finding; the agent is no rank."""
    result = streamguard("run", "--vgpu", "2", "--output", "out", "--", *TWO_STREAMS, cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert result.stderr.count("SG001 read-after-write race") == 1
    assert "seen      2 times on ranks 0-1" in result.stderr
    assert summary(result.stderr).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")
    assert _files(tmp_path / "out") == ["rank-0", "rank-1"]


def test_two_repaired_ranks_are_clean(tmp_path: Path) -> None:
    """The twin with the wait gives 0."""
    result = streamguard("run", "--vgpu", "2", "--", *TWO_STREAMS, "repaired", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert summary(result.stderr).endswith("status=clean")


def test_a_killed_rank_loses_nothing(tmp_path: Path) -> None:
    """Rank 1 is killed after its race: the launcher's status, and both ranks' findings."""
    result = streamguard("run", "--vgpu", "2", "--", *TWO_STREAMS, "kill", cwd=tmp_path)

    assert result.returncode == 1, result.stderr
    assert "seen      2 times on ranks 0-1" in result.stderr
    assert "coverage rank 1: unknown, no summary; 1 finding kept" in result.stderr
    assert " races=1 misuses=0 ranks=2/2 " in summary(result.stderr)


def test_a_subset_of_ranks_is_watched(tmp_path: Path) -> None:
    """With `--ranks 1` rank 0 writes nothing and is not missing."""
    result = streamguard(
        *("run", "--vgpu", "2", "--ranks", "1", "--output", "out", "--", *TWO_STREAMS),
        cwd=tmp_path,
    )

    assert result.returncode == 66, result.stderr
    assert "seen      1 time on rank 1" in result.stderr
    assert "never reported in" not in result.stderr
    assert summary(result.stderr).startswith("SUMMARY streamguard races=1 misuses=0 ranks=1/1")
    assert _files(tmp_path / "out") == ["rank-1"]


def test_a_rank_that_never_reported_in_is_named(tmp_path: Path) -> None:
    """A rank that ran without streamguard is missed by name: the others know the world size."""
    script = (
        "import os, runpy, sys\n"
        "if os.environ['RANK'] == '1': sys.exit(0)\n"
        "os.environ['STREAMGUARD_TEST'] = '1'\n"
        "import torch; torch.ones(2, device='cuda').add_(1); torch.cuda.synchronize()\n"
    )
    (tmp_path / "script.py").write_text(script)

    result = streamguard("run", "--vgpu", "2", "--", *TORCHRUN, "script.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert "incomplete: rank 1 never reported in" in result.stderr
    assert " ranks=1/2 " in summary(result.stderr)


def test_a_group_without_cuda_work_checked_nothing(tmp_path: Path) -> None:
    """Ranks that only talk over gloo are ranks, and saw no op: 67."""
    (tmp_path / "script.py").write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo'); dist.barrier(); dist.destroy_process_group()\n"
    )

    result = streamguard("run", "--vgpu", "2", "--", *TORCHRUN, "script.py", cwd=tmp_path)

    assert result.returncode == 67, result.stderr
    assert "checked nothing" in result.stderr
    assert " ranks=2/2 ops=0 " in summary(result.stderr)


def test_local_rank_0_reports_for_its_node(tmp_path: Path) -> None:
    """Under `STREAMGUARD=1 torchrun` one rank prints one report on both; status 0."""
    result = run(*TWO_STREAMS, cwd=tmp_path, environ=clean_environment(**WATCHED))

    assert result.returncode == 0, result.stderr
    assert result.stderr.count("SUMMARY streamguard") == 1
    assert "seen      2 times on ranks 0-1" in result.stderr
    assert summary(result.stderr).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")


def test_the_launcher_reports_when_local_rank_0_is_gone(tmp_path: Path) -> None:
    """Both ranks raise or are killed: torchrun's process prints what the files hold."""
    (tmp_path / "script.py").write_text(
        "import os, signal, torch\n"
        "torch.cuda.set_device(int(os.environ['RANK']))\n"
        "torch.ones(2, device='cuda').add_(1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    result = run(*TORCHRUN, "script.py", cwd=tmp_path, environ=clean_environment(**WATCHED))

    assert result.returncode == 1
    assert result.stderr.count("SUMMARY streamguard") == 1
    assert "wrote no summary" in result.stderr


def test_the_status_under_a_launcher(tmp_path: Path) -> None:
    """STREAMGUARD_EXIT=1 decides torchrun's status, not a worker's: 66, and no worker failed."""
    environ = clean_environment(**WATCHED, STREAMGUARD_EXIT="1")

    result = run(*TWO_STREAMS, cwd=tmp_path, environ=environ)

    assert result.returncode == 66, result.stderr
    assert "ChildFailedError" not in result.stderr
    assert result.stderr.count("SUMMARY streamguard") == 1


def test_ranks_without_a_launcher(tmp_path: Path) -> None:
    """torch.multiprocessing sets no variables: the ranks are learnt from the process group."""
    program = str(PROGRAMS / "spawned.py")
    store = str(tmp_path / "store")

    result = streamguard(
        *("run", "--vgpu", "2", "--json", "--", "python", program, store), cwd=tmp_path
    )

    assert result.returncode == 66, result.stderr
    race, last = (json.loads(line) for line in result.stdout.splitlines())
    assert race["ranks"] == [[0, 1], [1, 1]]
    assert (last["ranks"], last["expected_ranks"]) == ([0, 1], [0, 1])


def test_an_output_directory_may_be_used_again(tmp_path: Path) -> None:
    """Findings of the run before do not appear in the report of the next."""
    arguments = ("run", "--vgpu", "2", "--output", "out", "--", *TWO_STREAMS)
    streamguard(*arguments, cwd=tmp_path)

    result = streamguard(*arguments, "repaired", cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert len(list((tmp_path / "out").glob("rank-*.jsonl"))) == 4


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_launcher_that_initialises_cuda_is_no_rank(tmp_path: Path, is_wrapped: bool) -> None:
    """DeepSpeed's launchers do: one report, two ranks, and nobody waits for the launcher."""
    command = (
        *("python", str(PROGRAMS / "launcher.py"), "-m", "torch.distributed.run"),
        *("--nproc-per-node", "2", "--standalone", str(PROGRAMS / "two_streams.py")),
    )
    if is_wrapped:
        result = streamguard("run", "--vgpu", "2", "--", *command, cwd=tmp_path)
    else:
        result = run(*command, cwd=tmp_path, environ=clean_environment(**WATCHED))

    assert result.returncode == (66 if is_wrapped else 0), result.stderr
    assert result.stderr.count("SUMMARY streamguard") == 1
    assert result.stderr.count("coverage rank 0:") == 1
    assert summary(result.stderr).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")
