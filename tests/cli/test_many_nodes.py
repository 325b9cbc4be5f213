"""Launchers of many nodes: tasks of SLURM, torchrun's restarts, and a job of 64 ranks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import LIMIT_S, clean_environment, streamguard, summary

PROGRAMS = Path(__file__).parent / "programs"
TWO_STREAMS = (sys.executable, str(PROGRAMS / "two_streams.py"))
WATCHED = {"STREAMGUARD": "1", "STREAMGUARD_VGPU": "2"}


def slurm_task(task: int, *, tasks: int, tasks_per_node: int, step: int = 0) -> dict[str, str]:
    """The variables that `srun` gives one task."""
    nodes = tasks // tasks_per_node
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": str(step),
        "SLURM_PROCID": str(task),
        "SLURM_LOCALID": str(task % tasks_per_node),
        "SLURM_NODEID": str(task // tasks_per_node),
        "SLURM_NTASKS": str(tasks),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_TASKS_PER_NODE": f"{tasks_per_node}(x{nodes})",
    }


def start(*command: str, cwd: Path, variables: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process that `outputs` waits for."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=clean_environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outputs(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What each process printed as errors; each must have ended well."""
    printed = [process.communicate(timeout=LIMIT_S) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), printed
    return [error for _, error in printed]


def test_the_tasks_of_a_step_are_one_run(tmp_path: Path) -> None:
    """No process started the others, and they write into one directory; the first one reports."""
    steps = []
    for step in (0, 1):
        tasks = [
            slurm_task(task, tasks=2, tasks_per_node=2, step=step) | WATCHED for task in (0, 1)
        ]
        words = ("repaired",) if step else ()
        steps.append(
            outputs([start(*TWO_STREAMS, *words, cwd=tmp_path, variables=task) for task in tasks])
        )

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "streamguard-slurm-4711.0",
        "streamguard-slurm-4711.1",
    ]
    (first, others), (first_repaired, others_repaired) = steps
    assert "seen      2 times on ranks 0-1" in first
    assert summary(first).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")
    assert summary(first_repaired).endswith("status=clean")
    assert "SUMMARY" not in others + others_repaired


def two_tasks() -> list[dict[str, str]]:
    """The variables of two watched tasks on one node."""
    return [slurm_task(task, tasks=2, tasks_per_node=2) | WATCHED for task in (0, 1)]


def test_a_task_that_starts_behind_the_end_of_another_is_in_the_report(tmp_path: Path) -> None:
    """Task 0 has written its last record before task 1 exists, and waits for it."""
    first_task, second_task = two_tasks()
    first = start(*TWO_STREAMS, cwd=tmp_path, variables=first_task)
    while not any("summary" in path.read_text() for path in tmp_path.glob("*/rank-0-*.jsonl")):
        assert first.poll() is None
        time.sleep(0.05)
    second = start(*TWO_STREAMS, cwd=tmp_path, variables=second_task)

    report, other = outputs([first, second])

    assert "seen      2 times on ranks 0-1" in report
    assert summary(report).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")
    assert "SUMMARY" not in other
    assert "ended after the report" not in other


@pytest.mark.long
def test_a_task_behind_the_report_says_where_it_is_seen(tmp_path: Path) -> None:
    """Task 1 ends only after task 0 has stopped waiting for it and reported without it."""
    report, other = outputs(
        [start(*TWO_STREAMS, "late", cwd=tmp_path, variables=task) for task in two_tasks()]
    )

    assert "the report waits up to 30 s for rank 1\n" in report
    assert "incomplete: rank 1 wrote no summary" in report
    assert "rank 1 ended after the report of its node was printed; `streamguard show " in other
    shown = streamguard("show", "streamguard-slurm-4711.0", cwd=tmp_path)
    assert summary(shown.stdout).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")


TORCHRUN = ("torchrun", "--nproc-per-node", "2", "--standalone", "--max-restarts", "1")


@pytest.mark.parametrize(("words", "times"), [((), 2), (("stays",), 2)])
def test_a_restarted_job_reports_on_its_newest_attempt(
    tmp_path: Path, words: tuple[str, ...], times: int
) -> None:
    """What the first attempt showed is listed once, and its killed rank is not missed."""
    program = (*TORCHRUN, str(PROGRAMS / "restarted.py"), *words)
    result = streamguard("run", "--vgpu", "2", "--output", "out", "--", *program, cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    assert len(list((tmp_path / "out").glob("rank-*.jsonl"))) == 4
    assert result.stderr.count("SG001 read-after-write race") == 1
    assert f"seen      {times} times on ranks 0-1" in result.stderr
    assert result.stderr.count("coverage rank ") == 2
    assert "no summary" not in result.stderr
    assert result.stderr.count("attempt 0 (2 ranks) was started anew") == 1
    assert summary(result.stderr).startswith("SUMMARY streamguard races=1 misuses=0 ranks=2/2")


RANKS, PER_NODE = 64, 8
# A rank without a device: it says who it is, and has found what its number says.
WRITES_ITS_FILE = """
import dataclasses
import os
from streamguard import autostart, identity
from streamguard.config import parse
from streamguard.program import output_directory
from streamguard.report.build import build_coverage, build_finding
from streamguard.report.jsonl import RankFile
from streamguard.report.model import RankSummary
from tests.unit import raw_findings

autostart._become_root(parse(os.environ))
config = parse(os.environ)
start = identity.rank_start(config)
start = dataclasses.replace(start, host=f"node{start.rank // 8:08x}")
file = RankFile(output_directory(config), rank=start.rank, pid=start.pid)
file.append(start)
if start.rank % 2:
    file.append(build_finding(raw_findings.finding()))
coverage = build_coverage(raw_findings.coverage(ops=10))
if start.rank != 40:
    file.append(RankSummary(start.rank, start.pid, coverage, ()))
"""


@pytest.mark.long
def test_sixty_four_ranks_are_one_report(tmp_path: Path) -> None:
    """64 processes of one step on eight nodes: counts add up, and the one that died is named."""
    tasks = [slurm_task(task, tasks=RANKS, tasks_per_node=PER_NODE) for task in range(RANKS)]
    for node in range(RANKS // PER_NODE):
        outputs(
            [
                start(sys.executable, "-c", WRITES_ITS_FILE, cwd=tmp_path, variables=task)
                for task in tasks[node * PER_NODE : (node + 1) * PER_NODE]
            ]
        )

    result = streamguard("merge", "streamguard-slurm-4711.0", cwd=tmp_path)

    assert result.returncode == 66, result.stderr
    odd = ", ".join(str(rank) for rank in range(1, RANKS, 2))
    assert f"seen      96 times on ranks {odd}" in result.stdout
    assert "rank 40 wrote no summary" in result.stdout
    assert summary(result.stdout).startswith("SUMMARY streamguard races=1 misuses=0 ranks=64/64")
    assert " ops=630 " in summary(result.stdout)
