"""NCCL inside one process, as DataParallel uses it: one communicator a device, default streams."""

import pytest

from tests.vgpu.conftest import RunVgpu

PROGRAM = """
import torch
from torch.cuda import nccl
first = torch.full((4,), 2.0, device="cuda:0").mul_(3)
second = torch.full((4,), 2.0, device="cuda:1").mul_(5)
nccl.all_reduce([first, second])
print(first.tolist(), second.tolist())
"""


@pytest.mark.parametrize("schedule", ["eager", "lazy", "extreme:0,1", "extreme:1,0"])
def test_each_device_takes_part_on_its_own_default_stream(run_vgpu: RunVgpu, schedule: str) -> None:
    """The work that is pending on the second device is in the sum, however late it runs."""
    printed = run_vgpu(PROGRAM, schedule=schedule, devices=2, values=True)

    assert "[16.0, 16.0, 16.0, 16.0] [16.0, 16.0, 16.0, 16.0]" in str(printed)
