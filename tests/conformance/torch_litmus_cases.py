"""What the litmus files say about the torch programs' cases; needs neither torch nor a GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

PARTS = ("streams", "reuse", "host", "collectives")
"""The files `torch_litmus_<part>.py`."""

_FILES = Path(__file__).parents[1] / "data" / "litmus"

_HOST_ON_DEVICE_MEMORY = "torch has no way to access device memory from the host"
NOT_EXPRESSIBLE = {
    "dask-3598": _HOST_ON_DEVICE_MEMORY + ": a network card reads it",
    "trt-19444": _HOST_ON_DEVICE_MEMORY + ": a network card writes it",
    "rmm-1655": _HOST_ON_DEVICE_MEMORY + ": a kernel uses memory of malloc's, freed meanwhile",
    "pt-68749": "the missing call is inside torch, which makes it since 1.11",
}
"""Racy cases without a program, and why."""

Pairs = list[list[str]]


def _label(text: str) -> str:
    return "free" if text.startswith("free ") else text


@cache
def expected_pairs() -> dict[str, Pairs]:
    """Kind, domain and labels of the races of each racy case, sorted.

    A free is reported without a line, so its label is the word alone.
    """
    pairs = {}
    for file in sorted(_FILES.glob("*.yaml")):
        record = yaml.safe_load(file.read_text())
        expected = record.get("buggy", record.get("sequence"))["expect"]
        if expected["verdict"] == "race":
            pairs[record["id"]] = sorted(
                [race["kind"], race["domain"], _label(race["first"]), _label(race["second"])]
                for race in expected["races"]
            )
    return pairs
