"""Doubles a vector on a second stream; with `racy` the second stream does not wait.

Options: `racy`, `silent` (names no result), `fails` (status 3 under other schedules than eager).
"""

import os
import sys

import torch

from streamguard.vgpu import result

side = torch.cuda.Stream()
x = torch.zeros(3, device="cuda")
torch.cuda.synchronize()
x.add_(1)
if "racy" not in sys.argv:
    side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    doubled = x * 2
torch.cuda.current_stream().wait_stream(side)
if "silent" not in sys.argv:
    result("doubled", doubled)
if "fails" in sys.argv and os.environ["STREAMGUARD_VGPU_SCHEDULE"] != "eager":
    print("wrong order")
    sys.exit(3)
