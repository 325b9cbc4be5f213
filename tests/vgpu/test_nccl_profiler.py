"""The virtual NCCL finds, loads and calls profiler plugins as NCCL 2.30 does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.vgpu.conftest import RunVgpu
from tests.vgpu.user_profiler import COLLECTIVE, GROUP, MESSAGE, MESSAGE_CALL, build_plugin

# Two ranks: each call by itself or in a group. Addresses are printed as A + offset.
PROGRAM = """
import ctypes, os
from raw_cuda import device_memory, device_sync
from raw_nccl import FLOAT32, SUM, join, leave, nccl, new_id, run_ranks, say, set_device, UINT8

unique_id = new_id()

def body(rank):
    set_device(rank)
    comm = join(unique_id, 2, rank)
    data = device_memory(4096)
    say(f"{rank}: data {data.value:#x}")
    n = ctypes.c_size_t
    def at(offset):
        return ctypes.c_void_p(data.value + offset)
    CALLS
    device_sync()
    leave(comm)
    say(f"{rank}: left")

print(run_ranks(2, body), flush=True)
"""


def _transcript(
    run_vgpu: RunVgpu, calls: str, plugin: str, rank: int = 0, **environment: str
) -> list[str]:
    """What the plugin printed on a rank, addresses replaced by A + offset."""
    code = PROGRAM.replace("CALLS", calls.replace("\n", "\n    "))
    (printed,) = run_vgpu(
        code, devices=2, environment={"NCCL_PROFILER_PLUGIN": plugin, **environment}
    )
    lines = [line[3:] for line in printed.lines if line.startswith(f"{rank}: ")]
    (start,) = (int(line[5:], 16) for line in lines if line.startswith("data "))
    return [
        re.sub("0x[0-9a-f]+", lambda found: f"A+{int(found[0], 16) - start}", line)
        for line in lines
        if not line.startswith("data ")
    ]


ONE_CALL = "assert nccl.ncclAllReduce(at(0), at(64), n(4), FLOAT32, SUM, comm, None) == 0"


def test_version_5_hears_the_call_and_what_it_queued(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """The call's event has the stream, its child the buffers; each is stopped in NCCL's order."""
    plugin = build_plugin(tmp_path / "plugin.so", version=5)

    heard = _transcript(run_vgpu, f"{ONE_CALL}\n{ONE_CALL}", str(plugin))

    assert heard == [
        "init v5 unnamed rank 0 of 2",
        "1<0 group call depth 1 captured 0",
        "state 23 of 1",
        "2<1 coll call AllReduce 4 ncclFloat32 root 0 stream (nil) captured 0",
        "stop 2",
        "state 24 of 1",
        "3<0 group",
        "4<2 coll #0 AllReduce A+0 A+64 4 ncclFloat32 root 0 of 0",
        "stop 4",
        "stop 3",
        "stop 1",
        "5<0 group call depth 1 captured 0",
        "state 23 of 5",
        "6<5 coll call AllReduce 4 ncclFloat32 root 0 stream (nil) captured 0",
        "stop 6",
        "state 24 of 5",
        "7<0 group",
        "8<6 coll #1 AllReduce A+0 A+64 4 ncclFloat32 root 0 of 0",
        "stop 8",
        "stop 7",
        "stop 5",
        "finalize",
        "left",
    ]


def test_version_4_hears_only_what_was_queued(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """Its parent is the group, and there is no stream."""
    plugin = build_plugin(tmp_path / "plugin.so", version=4, mask=GROUP | COLLECTIVE)

    heard = _transcript(run_vgpu, ONE_CALL, str(plugin), rank=1)

    assert heard == [
        "init v4 unnamed rank 1 of 2",
        "1<0 group",
        "2<1 coll #0 AllReduce A+0 A+64 4 ncclFloat32 root 0 of 1",
        "stop 2",
        "stop 1",
        "finalize",
        "left",
    ]


@pytest.mark.parametrize(("older", "newer"), [(4, 5), (5, 6)])
def test_the_newest_version_is_taken(
    run_vgpu: RunVgpu, tmp_path: Path, older: int, newer: int
) -> None:
    """Of a library with two versions the newer one is called, and only that."""
    plugin = build_plugin(tmp_path / "plugin.so", version=older, mask=0)
    newest = build_plugin(tmp_path / "newest.so", version=newer, mask=0, beside=plugin)

    heard = _transcript(run_vgpu, ONE_CALL, str(newest))

    assert heard == [f"init v{newer} unnamed rank 0 of 2", "finalize", "left"]


GROUPED = """\
assert nccl.ncclGroupStart() == 0
assert nccl.ncclAllGather(at(0), at(64), n(4), FLOAT32, comm, None) == 0
assert nccl.ncclBroadcast(at(0), at(32), n(8), FLOAT32, 1, comm, None) == 0
assert nccl.ncclSend(at(128), n(3), UINT8, 1 - rank, comm, None) == 0
assert nccl.ncclRecv(at(160), n(3), UINT8, 1 - rank, comm, None) == 0
assert nccl.ncclGroupEnd() == 0"""


@pytest.mark.parametrize("are_broadcasts_told", [False, True])
def test_a_group_is_queued_at_its_end(
    run_vgpu: RunVgpu, tmp_path: Path, are_broadcasts_told: bool
) -> None:
    """Gathered and broadcast elements are queued as bytes; broadcasts are queued apart."""
    plugin = build_plugin(tmp_path / "plugin.so", version=5)
    environment = {"NCCL_ALLGATHERV_ENABLE": "0"} if are_broadcasts_told else {}

    heard = _transcript(run_vgpu, GROUPED, str(plugin), rank=1, **environment)

    broadcast = ["coll #0 Broadcast A+0 A+32 32 ncclInt8 root 1 of 1"] * are_broadcasts_told
    assert [re.sub(r"^\d+<\d+ ", "", line) for line in heard if "<" in line] == [
        "group call depth 2 captured 0",
        "coll call AllGather 4 ncclFloat32 root 0 stream (nil) captured 0",
        "coll call Broadcast 8 ncclFloat32 root 1 stream (nil) captured 0",
        "p2p call Send 3 Unknown stream (nil) captured 0",
        "p2p call Recv 3 Unknown stream (nil) captured 0",
        "group",
        "coll #0 AllGather A+0 A+64 16 ncclInt8 root 0 of 1",
        *broadcast,
        "p2p Send A+128 3 Unknown peer 0 of 1",
        "p2p Recv A+160 3 Unknown peer 0 of 1",
    ]


COMPOSED = """\
assert nccl.ncclAlltoAll(at(0), at(64), n(2), FLOAT32, comm, None) == 0
assert nccl.ncclGather(at(0), at(64), n(2), FLOAT32, 1, comm, None) == 0
assert nccl.ncclScatter(at(0), at(64), n(2), FLOAT32, 0, comm, None) == 0"""


def test_what_nccl_composes_of_messages_is_told_as_messages(
    run_vgpu: RunVgpu, tmp_path: Path
) -> None:
    """All-to-all, gather and scatter are sends and receives of their parts."""
    plugin = build_plugin(tmp_path / "plugin.so", version=5, mask=MESSAGE | MESSAGE_CALL)

    heard = _transcript(run_vgpu, COMPOSED, str(plugin), rank=1)

    queued = [line.split(" ", 1)[1] for line in heard if "p2p Send" in line or "p2p Recv" in line]
    assert queued == [
        "p2p Send A+0 2 ncclFloat32 peer 0 of 1",
        "p2p Recv A+64 2 ncclFloat32 peer 0 of 1",
        "p2p Send A+8 2 ncclFloat32 peer 1 of 1",
        "p2p Recv A+72 2 ncclFloat32 peer 1 of 1",
        "p2p Send A+0 2 ncclFloat32 peer 1 of 1",
        "p2p Recv A+64 2 ncclFloat32 peer 0 of 1",
        "p2p Recv A+72 2 ncclFloat32 peer 1 of 1",
        "p2p Recv A+64 2 ncclFloat32 peer 0 of 1",
    ]


UNTOLD = """\
assert nccl.ncclAllReduce(at(0), at(64), n(0), FLOAT32, SUM, comm, None) == 0
if rank == 0:
    alone = join(new_id(), 1, 0)
    assert nccl.ncclAllReduce(at(0), at(64), n(4), FLOAT32, SUM, alone, None) == 0
    device_sync()
    leave(alone)"""


def test_what_needs_no_kernel_of_nccl_is_not_told(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """Neither calls of no elements nor collectives of one rank."""
    plugin = build_plugin(tmp_path / "plugin.so", version=5)

    heard = _transcript(run_vgpu, UNTOLD, str(plugin))

    assert heard == [
        "init v5 unnamed rank 0 of 2",
        "init v5 unnamed rank 0 of 1",
        "finalize",
        "finalize",
        "left",
    ]


CAPTURED = """\
from raw_cuda import new_stream, ok
stream, graph, executable = new_stream(), ctypes.c_void_p(), ctypes.c_void_p()
ok("cudaStreamBeginCapture", stream, 2)
assert nccl.ncclAllReduce(at(0), at(64), n(4), FLOAT32, SUM, comm, stream) == 0
ok("cudaStreamEndCapture", stream, ctypes.byref(graph))
ok("cudaGraphInstantiate", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
ok("cudaGraphLaunch", executable, stream)
ok("cudaGraphLaunch", executable, stream)"""


def test_of_a_captured_call_nothing_is_told_when_it_is_launched(
    run_vgpu: RunVgpu, tmp_path: Path
) -> None:
    """Launches of the graph need no work of NCCL on the host where no network takes part."""
    plugin = build_plugin(tmp_path / "plugin.so", version=5)

    heard = _transcript(run_vgpu, CAPTURED, str(plugin))

    started = [re.sub(r"^\d+<\d+ ", "", line) for line in heard if "<" in line]
    assert [re.sub("stream A.-?[0-9]+", "stream S", line) for line in started] == [
        "group call depth 1 captured 1",
        "coll call AllReduce 4 ncclFloat32 root 0 stream S captured 1",
    ]


def test_a_short_name_stands_for_a_library(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """`mine` is libnccl-profiler-mine.so; without the variable it is libnccl-profiler.so."""
    build_plugin(tmp_path / "libnccl-profiler-mine.so", version=5)
    build_plugin(tmp_path / "libnccl-profiler.so", version=4, mask=GROUP)

    by_name = _transcript(run_vgpu, ONE_CALL, "mine", LD_LIBRARY_PATH=str(tmp_path))
    by_default = _transcript(run_vgpu, ONE_CALL, "", LD_LIBRARY_PATH=str(tmp_path))

    assert len(by_name) == 13
    assert by_default == ["init v4 unnamed rank 0 of 2", "1<0 group", "stop 1", "finalize", "left"]


@pytest.mark.parametrize("value", ["none", "absent", "/no/such/file.so"])
def test_without_a_plugin_calls_go_on(run_vgpu: RunVgpu, tmp_path: Path, value: str) -> None:
    """`none` loads nothing, not even a library of that name; nor does a wrong name."""
    build_plugin(tmp_path / "libnccl-profiler.so", version=5)
    build_plugin(tmp_path / "libnccl-profiler-none.so", version=5)

    assert _transcript(run_vgpu, ONE_CALL, value, LD_LIBRARY_PATH=str(tmp_path)) == ["left"]


def test_a_plugin_that_fails_to_start_is_left_out(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """It is not called again for that communicator."""
    plugin = build_plugin(tmp_path / "plugin.so", version=5, fails=True)

    assert _transcript(run_vgpu, ONE_CALL, str(plugin)) == ["init v5 unnamed rank 0 of 2", "left"]
