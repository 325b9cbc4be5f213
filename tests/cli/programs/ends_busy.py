"""Ends while device and daemon thread are busy; reads unordered, or behind a wait (`ordered`)."""

import sys
import threading

import torch

side_stream = torch.cuda.Stream()
values = torch.zeros(16, device="cuda")
others = torch.zeros(16, device="cuda")
torch.cuda.synchronize()


def add_for_ever() -> None:
    """Issue ops until the process is gone."""
    while True:
        others.add_(1)


threading.Thread(target=add_for_ever, daemon=True).start()
with torch.cuda.stream(side_stream):
    values.add_(1)
if "ordered" in sys.argv:
    torch.cuda.current_stream().wait_stream(side_stream)
values.mul(2)
