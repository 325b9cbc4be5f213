"""What ranks share has no name, belongs to one user, and is gone with the last rank."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conftest import RunVgpu

_NCCL = "from raw_cuda import *\nfrom raw_nccl import *\n"
_LOOK = """
import os, stat
def segments():
    found = []
    for number in os.listdir("/proc/self/fd"):
        try: target, status = os.readlink(f"/proc/self/fd/{number}"), os.fstat(int(number))
        except OSError: continue
        if "streamguard" in target:
            found.append((target, oct(stat.S_IMODE(status.st_mode)), status.st_nlink))
    return found
def shared_mappings():
    lines = [line.split(maxsplit=5) for line in open("/proc/self/maps")]
    return {line[5].strip() for line in lines if line[1] == "rw-s"}
"""


def test_segments_have_no_name_and_one_owner(run_vgpu: RunVgpu) -> None:
    """The kernel frees memory without a name when its last user ends, however it ends."""
    code = (
        _NCCL
        + _LOOK
        + """
unique_id = new_id()
say(segments())
def body(rank):
    comm = join(unique_id, 2, rank)
    data, s = device_memory(4), new_stream()
    all_reduce(comm, data, s); sync(s)
    say(rank, segments(), shared_mappings())
    leave(comm)
say(run_ranks(2, body))
"""
    )
    finished = run_vgpu(code)[0]

    nameless = "/memfd:streamguard (deleted)"
    assert sorted(finished.lines) == [
        # once all ranks have it mapped, nobody can find it any more
        f"0 [] {{'{nameless}'}}",
        f"1 [] {{'{nameless}'}}",
        "[('/memfd:streamguard (deleted)', '0o600', 0)]",
        "[0]",
    ]


def test_an_identity_cannot_be_guessed(run_vgpu: RunVgpu) -> None:
    """Whoever knows process and descriptor, but not the 16 random bytes, is refused."""
    code = (
        _NCCL
        + """
unique_id = new_id()
last_random_byte = ctypes.addressof(unique_id) + {offset}
forged = ctypes.c_ubyte.from_address(last_random_byte)
forged.value ^= {change}
comm = Pointer()
print(nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique_id, 0), bool(comm.value))
"""
    )
    offset = 8 + 8 + 16 + 15  # magic, address of the board, creator, then the random bytes
    refused = run_vgpu(code.format(offset=offset, change=1))[0]
    joined = run_vgpu(code.format(offset=offset, change=0))[0]

    ncclSystemError = 2  # noqa: N806 # NCCL's name
    assert (refused.lines, joined.lines) == ([f"{ncclSystemError} False"], ["0 True"])


_TWO_RANKS = """
import os, torch
from torch import distributed as dist
rank, own = int(os.environ["RANK"]), {value}
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
x = torch.full((4,), own * (rank + 1), device="cuda")
if rank == 0:
    for path, mode in {meetings}:
        open(path, mode).close()  # returns when the other run has opened it too
dist.all_reduce(x)
print(x.tolist())
dist.destroy_process_group()
"""


def test_two_runs_at_once_do_not_meet(run_vgpu: RunVgpu, tmp_path: Path) -> None:
    """Two pairs of ranks hold their communicators at the same time: each sums its own values."""
    there, back = (str(tmp_path / name) for name in ("there", "back"))
    os.mkfifo(there)
    os.mkfifo(back)
    programs = [
        _TWO_RANKS.format(value=1.0, meetings=[(there, "w"), (back, "r")]),
        _TWO_RANKS.format(value=10.0, meetings=[(there, "r"), (back, "w")]),
    ]
    with ThreadPoolExecutor() as threads:
        runs = list(threads.map(lambda code: run_vgpu(code, ranks=2, values=True), programs))

    sums = [[rank.lines for rank in run] for run in runs]
    assert sums == [[["[3.0, 3.0, 3.0, 3.0]"]] * 2, [["[30.0, 30.0, 30.0, 30.0]"]] * 2]
