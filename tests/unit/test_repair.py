"""Tests of repairs and suppression keys: `streamguard.report.repair` and `frames`."""

from __future__ import annotations

from typing import Any

import pytest

from streamguard.report.build import build_finding
from streamguard.report.frames import fold, short_file
from streamguard.report.model import Frame
from tests.unit.raw_findings import (
    DEFAULT_STREAM,
    POOL_STREAM,
    REDUCTION_STREAM,
    access,
    finding,
    reduction,
)

_AT = [["/job/train.py", 12, "step"]]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            REDUCTION_STREAM,
            DEFAULT_STREAM,
            "torch.cuda.current_stream().wait_stream(reduction_stream)",
        ),
        (
            DEFAULT_STREAM,
            REDUCTION_STREAM,
            "reduction_stream.wait_stream(torch.cuda.default_stream(0))",
        ),
        (
            POOL_STREAM,
            POOL_STREAM,
            "torch.cuda.current_stream().wait_stream(<stream 5 (device 0)>)",
        ),
    ],
)
def test_the_repair_is_code_for_the_missing_wait(
    first: dict[str, Any], second: dict[str, Any], expected: str
) -> None:
    """The second access's stream waits for the first's; named streams are used by name."""
    raw = finding(first=access(stream=first, frames=_AT), second=access(stream=second, frames=_AT))

    assert build_finding(raw).repair == (f"before aten::copy_ (train.py:12): {expected}",)


def test_an_event_that_exists_is_offered() -> None:
    """An event recorded after the first access needs only to be waited for."""
    raw = finding()
    raw["missing"] = {**raw["missing"], "event_after_first": True}

    lines = build_finding(raw).repair

    assert len(lines) == 2
    assert lines[1].startswith("an event recorded on reduction_stream after c10d::allreduce_")


def test_a_collective_that_comes_second_waits_for_the_stream() -> None:
    """`Work.wait` cannot order what happened before the collective was issued."""
    raw = finding(
        code="SG006",
        first=access(stream=POOL_STREAM, frames=_AT),
        second=reduction(collective={"async": True, "group": "0"}, frames=_AT),
    )

    assert build_finding(raw).repair == (
        "before c10d::allreduce_ (train.py:12): "
        "torch.cuda.current_stream().wait_stream(<stream 5 (device 0)>)",
    )


def test_the_suppression_key_holds_in_every_run() -> None:
    """Addresses, counts, ids, epochs and line numbers do not change it; code and ops do."""
    same = finding(
        id=7,
        count=99,
        second=access(epoch=1, op_id=9, frames=[["/elsewhere/train.py", 500, "main"]]),
    )
    plain = finding(second=access(frames=[["/job/train.py", 77, "main"]]))
    other = finding(second=access(op="aten::add_"))

    key = build_finding(plain).suppression

    assert key == (
        "SG002:c10d::allreduce_@stage_1_and_2.py:average_tensor|aten::copy_@train.py:main"
    )
    assert build_finding(same).suppression == key
    assert build_finding(other).suppression != key


def test_frames_of_torch_and_python_are_folded() -> None:
    """The own code stays, innermost first; libraries that are not torch stay too."""
    site = "/venv/lib/python3.11/site-packages"
    frames = (
        Frame(f"{site}/torch/nn/modules/module.py", 1, "_call_impl"),
        Frame(f"{site}/deepspeed/runtime/engine.py", 2, "backward"),
        Frame("/usr/lib/python3.11/contextlib.py", 3, "inner"),
        Frame("<frozen runpy>", 4, "run"),
        Frame("/job/torch/train.py", 5, "main"),
    )

    folded = fold(frames)

    assert folded.shown == (frames[1], frames[4])
    assert folded.folded == 3


def test_frames_of_torch_alone_leave_the_outermost() -> None:
    """A place in torch is better than none."""
    frames = tuple(Frame("/lib/python3.11/site-packages/torch/a.py", line, "f") for line in (1, 2))

    assert fold(frames).shown == (frames[1],)
    assert fold(()).shown == ()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/venv/lib/python3.11/site-packages/deepspeed/a.py", "deepspeed/a.py"),
        ("/job/sub/train.py", "sub/train.py"),
        ("/jobs/train.py", "/jobs/train.py"),
        ("<string>", "<string>"),
    ],
)
def test_files_are_shortened(file: str, expected: str) -> None:
    """Inside a package by the package, inside the directory relative to it, else whole."""
    assert short_file(file, base="/job") == expected
