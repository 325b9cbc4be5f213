"""A program on the virtual GPU that ends with work under way ends well, as on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import Finished, RunVgpu

PROGRAM = """
import torch
layer = torch.nn.Linear(8, 8).cuda()
layer(torch.zeros(4, 8, device="cuda")).sum().backward()
"""

# The second collective is only queued under a lazy schedule: nothing ever waits for it.
_COLLECTIVES = """
import os, select, torch
from torch import distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
x = torch.ones(4, device="cuda")
dist.all_reduce(x)
x.sum().item()
{queued}
"""
_ON_BOTH = """
for _ in range(5):
    dist.all_reduce(x, async_op=True)
"""
_AFTER_THE_PEER = """
store = dist.distributed_c10d._get_default_store()
if rank == 1:
    store.set("process", str(os.getpid()))
else:
    select.select([os.pidfd_open(int(store.get("process")))], [], [])
    dist.all_reduce(x, async_op=True)
"""


def _complaints(finished: Finished) -> list[str]:
    """What is said beside torch's advice to call `destroy_process_group`."""
    return [
        line
        for line in finished.errors.splitlines()
        if line and "destroy_process_group() was not called" not in line
    ]


@pytest.mark.parametrize("attempt", range(4))
def test_ending_right_after_backward_does_not_abort(attempt: int) -> None:
    """The autograd thread finishes first; without that most such programs abort with status -6."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    environment |= {"STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_VALUES": "0"}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("queued", [_ON_BOTH, _AFTER_THE_PEER], ids=["both", "the peer is gone"])
def test_ending_with_a_queued_collective_does_not_abort(run_vgpu: RunVgpu, queued: str) -> None:
    """What can run runs, the rest is lost without a word; torch's watchdog finds nothing left."""
    finished = run_vgpu(_COLLECTIVES.format(queued=queued), ranks=2, schedule="lazy", check=False)

    assert [(one.status, _complaints(one)) for one in finished] == [(0, []), (0, [])]


def test_a_host_function_that_never_returns_does_not_keep_the_program(run_vgpu: RunVgpu) -> None:
    """What does not move is given up, and a result that it would have written is refused."""
    code = """
import os
from raw_cuda import *
from streamguard.vgpu import program_end
program_end._PATIENCE_MS = 50
never, kept_open = os.pipe()
s = new_stream()
host_call(s, lambda: os.read(never, 1))
program_end.finish()
print(call("cudaStreamQuery", s), call("cudaStreamSynchronize", s))
"""
    finished = run_vgpu(code, schedule="lazy")[0]

    assert finished.lines == ["0 4"]
