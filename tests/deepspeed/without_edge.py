"""Runs a program with one edge of the repair taken out: without_edge.py METHOD SCRIPT ARGUMENTS."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from streamguard.deepspeed.repair.bucket_order import BucketOrder


def take_out(method: str) -> None:
    """Let a method of `BucketOrder` that adds an order do nothing."""
    if not callable(vars(BucketOrder).get(method)):
        raise SystemExit(f"BucketOrder has no method {method!r}")
    setattr(BucketOrder, method, lambda *_: None)


if __name__ == "__main__":
    take_out(sys.argv[1])
    sys.argv = sys.argv[2:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
