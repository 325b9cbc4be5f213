"""A program on the virtual GPU that ends right after `backward()` ends well."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import torch
layer = torch.nn.Linear(8, 8).cuda()
layer(torch.zeros(4, 8, device="cuda")).sum().backward()
"""


@pytest.mark.parametrize("attempt", range(4))
def test_ending_right_after_backward_does_not_abort(attempt: int) -> None:
    """The autograd thread finishes first; without that most such programs abort with status -6."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    environment |= {"STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_VALUES": "0"}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
