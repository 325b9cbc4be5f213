"""Ends while the device has work left: its last op reads unordered, or not with `ordered`."""

import sys

import torch

side_stream = torch.cuda.Stream()
values = torch.zeros(16, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side_stream):
    for _ in range(100):
        values.add_(1)
if "ordered" in sys.argv:
    torch.cuda.current_stream().wait_stream(side_stream)
values.mul(2)
