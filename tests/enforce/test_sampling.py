"""Steps and streams that are left out: counted, never a false race."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.enforce.running import run

# Every step races once by itself; step 1 also hands a tensor to step 2, in order.
STEPS = """
import torch, streamguard
side = torch.cuda.Stream()
x = torch.zeros(64, device="cuda")
handed = torch.zeros(64, device="cuda")
torch.cuda.synchronize()
for step in range(4):
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.add_(1)
        handed.add_(1)
        event = side.record_event()
    y = x * 2
    torch.cuda.current_stream().wait_event(event)
    z = handed * 2
    streamguard.step()
print([])
"""


@pytest.mark.parametrize(
    ("options", "count", "left_out"),
    [
        ((), 4, {}),
        (("--every", "2"), 2, {"ops in steps that were not looked at": 8}),
        (("--every", "3"), 2, {"ops in steps that were not looked at": 8}),
    ],
)
def test_steps_that_are_left_out_are_counted_and_make_no_race(
    options: tuple[str, ...], count: int, left_out: dict[str, int], tmp_path: Path
) -> None:
    """The one racing pair is seen in the steps looked at; the ordered one never."""
    program = tmp_path / "program.py"
    program.write_text(STEPS)

    done = run(tmp_path / "out", str(program), options=options)

    races = done.of_type("race")
    assert [(r["first"]["op"], r["second"]["op"], r["count"]) for r in races] == [
        ("aten::add_", "aten::mul", count)
    ]
    opaque = done.summary["coverage"][0]["opaque"]
    assert {k: v for k, v in opaque.items() if "not looked at" in k} == left_out


def test_streams_that_are_left_out_hide_the_race_and_are_counted(tmp_path: Path) -> None:
    """With only a stream of another name looked at nothing is checked, and the status says so."""
    program = tmp_path / "program.py"
    program.write_text(STEPS)

    done = run(tmp_path / "out", str(program), options=("--streams", "copy"))

    assert (done.status, done.of_type("race")) == (67, [])
    opaque = done.summary["coverage"][0]["opaque"]
    assert opaque["ops on streams that were not looked at"] > 0
