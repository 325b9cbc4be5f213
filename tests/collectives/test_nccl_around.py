"""NCCL's profiler plugin: calls that reach NCCL around the preloaded library are counted too."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from streamguard.collectives.audit import audit_rank
from streamguard.collectives.audit_text import render
from streamguard.collectives.record import RankLog, read_logs
from streamguard.hooks.interposer import preloading
from streamguard.report.coverage import coverage_lines
from streamguard.report.merge import merge_ranks, read_directory
from tests.cli.command import clean_environment, streamguard
from tests.collectives.launch import launch
from tests.vgpu.user_profiler import build_plugin

# What each rank of nccl_around.py calls; of torch.distributed a coalesced pair is one call.
COUNTS = {"ncclAllGather": 1, "ncclAllReduce": 3, "ncclBroadcast": 1, "ncclRecv": 1, "ncclSend": 1}
RECORDED = 6
LAYERS = "layers observer gputrace allocator c10d runtime"


def _watch(output: Path, **environ: str) -> str:
    """What both ranks printed; they are watched as `streamguard run --audit` does it."""
    outcome = launch(
        "nccl_around.py", ranks=2, output=output, STREAMGUARD="1", STREAMGUARD_AUDIT="1",
        STREAMGUARD_REPORTS_ELSEWHERE="1", **preloading(environ),
    )  # fmt: skip
    assert outcome.statuses == [0, 0], outcome.text
    return outcome.text


def _newest(log: RankLog) -> list[dict[str, object]]:
    """The calls that a rank noted at its end."""
    (note,) = log.notes_of("unrecorded")
    newest = note["newest"]
    assert isinstance(newest, list)
    return newest


def _coverage_of_rank_0(output: Path) -> str:
    lines = coverage_lines(merge_ranks(read_directory(output).ranks))
    return next(line for line in lines if line.startswith("coverage rank 0: "))


def test_each_call_is_noted_once_with_its_buffers(tmp_path: Path) -> None:
    """In order, as the program made them; those of torch.distributed are not among them."""
    printed = _watch(tmp_path)
    logs = read_logs(tmp_path)
    assert [log.rank for log in logs] == [0, 1]

    for rank, log in enumerate(logs):
        (used,) = re.findall(rf"rank {rank} used (\d+) (\d+) (\d+)", printed)
        data, gathered, stream = map(int, used)
        newest = _newest(log)
        keys = ("function", "count", "send", "receive", "peer")
        assert [tuple(call[key] for key in keys) for call in newest] == [
            *[("ncclAllReduce", 64, data, data, -1)] * 3,
            ("ncclBroadcast", 16, 0, 0, 1),  # NCCL tells no plugin of a broadcast's buffers
            ("ncclAllGather", 64, data, gathered, -1),
            ("ncclSend", 8, data, 0, 1 - rank),
            ("ncclRecv", 8, 0, gathered, 1 - rank),
        ]
        alike = ("type", "rank", "ranks", "stream", "heard", "captured")
        expected = ("ncclFloat32", rank, 2, stream, False, False)
        assert {tuple(call[key] for key in alike) for call in newest} == {expected}
        audit = audit_rank(log)
        assert audit.unrecorded.counts == COUNTS
        assert audit.unrecorded.uncounted == ""
        assert audit.recorded == RECORDED
    assert len({call["communicator"] for log in logs for call in _newest(log)}) == 1
    counted = ", ".join(f"{name} outside torch.distributed {n}" for name, n in COUNTS.items())
    coverage = _coverage_of_rank_0(tmp_path)
    assert f"{LAYERS} nccl; opaque" in coverage
    assert counted in coverage


def test_the_plugin_gives_way_to_one_of_the_user(tmp_path: Path) -> None:
    """NCCL calls the user's; these calls are then not counted, and every report says why."""
    plugin = build_plugin(tmp_path / "mine.so", version=5)

    printed = _watch(tmp_path, NCCL_PROFILER_PLUGIN=str(plugin))
    audit = audit_rank(read_logs(tmp_path)[0])

    assert "0: init v5 default_pg" in printed
    assert "1: init v5 unnamed rank 1 of 2" in printed
    assert (audit.unrecorded.counts, audit.unrecorded.kinds) == ({}, ())
    assert (
        "note: NCCL calls that go around the preloaded library (linked statically, or found by "
        f"dlsym) were not counted: NCCL's profiler plugin is {plugin}\n"
    ) in render(audit)
    coverage = _coverage_of_rank_0(tmp_path)
    assert f"{LAYERS}; gave way: nccl to {plugin}; opaque" in coverage
    assert "outside torch.distributed" not in coverage


# Two devices of one process: torch calls NCCL where the preloaded library hears it.
HEARD = """
import torch
import torch.distributed as dist
from torch.cuda import nccl

dist.init_process_group("nccl", rank=0, world_size=1, init_method="tcp://127.0.0.1:0")
tensors = [torch.ones(32, device=f"cuda:{device}") for device in (0, 1)]
print("used", *(tensor.data_ptr() for tensor in tensors), flush=True)
dist.all_reduce(tensors[0])
nccl.all_reduce(tensors)
torch.cuda.synchronize()
dist.destroy_process_group()
"""


def test_what_both_hear_is_counted_once(tmp_path: Path) -> None:
    """The preloaded library counts it, the plugin tells its buffers."""
    result = streamguard(
        "audit", "--json", "--vgpu", "2", "--output", str(tmp_path / "out"),
        "--", sys.executable, "-c", HEARD, cwd=tmp_path, environ=clean_environment(),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    used, *_, audit = result.stdout.splitlines()
    first, second = (int(text) for text in used.split()[1:])
    (log,) = read_logs(tmp_path / "out")

    assert json.loads(audit)["unrecorded"] == {"ncclAllReduce": 2}
    keys = ("function", "rank", "send", "receive", "heard")
    assert [tuple(call[key] for key in keys) for call in _newest(log)] == [
        ("ncclAllReduce", 0, first, first, True),
        ("ncclAllReduce", 1, second, second, True),
    ]
    assert json.loads(audit)["unrecorded_kinds"] == [
        {"function": "ncclAllReduce", "dtype": "float32", "elements": 32, "ranks": 2, "calls": 2,
         "buffers": []}
    ]  # fmt: skip
