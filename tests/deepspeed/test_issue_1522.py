"""DeepSpeed issue 1522: pipeline stages with unequal numbers of parameter groups wait for ever."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

import pytest

from tests.deepspeed.training import BIN, ROOT, environment_of

RELEASE = "0.19.8"


@dataclass(frozen=True)
class Pipeline:
    """How examples/pipeline_embedding.py ended; `losses` is None where it printed none."""

    status: int
    losses: list[float] | None
    text: str


def run_pipeline(*arguments: str, ranks: int = 2, reducer: str | None = None) -> Pipeline:
    """Train on the virtual GPU, without the detector."""
    environment = environment_of(RELEASE) | {"STREAMGUARD_VGPU": str(ranks)}
    if reducer:
        environment["STREAMGUARD_REDUCER"] = reducer
    launcher = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", str(ranks)]
    done = subprocess.run(
        [*launcher, "examples/pipeline_embedding.py", *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    printed = [line for line in done.stdout.splitlines() if line.startswith("losses: ")]
    losses = json.loads(printed[0].removeprefix("losses: ")) if printed else None
    return Pipeline(done.returncode, losses, done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("reducer", "ranks"),
    [
        ("repair", 2),
        pytest.param("own", 2, marks=pytest.mark.deepspeed_matrix),
        pytest.param("repair", 4, marks=pytest.mark.deepspeed_matrix),
        pytest.param("own", 4, marks=pytest.mark.deepspeed_matrix),
    ],
)
def test_with_one_norm_the_pipeline_trains_as_without_zero(reducer: str, ranks: int) -> None:
    """One stage has two groups, the other one; the losses are ZeRO-0's, bit by bit."""
    expected = run_pipeline("--stage", "0", ranks=ranks)

    run = run_pipeline(ranks=ranks, reducer=reducer)

    assert run.status == 0, run.text[-4000:]
    assert "pipeline stage 0: 2 parameter groups" in run.text
    assert "pipeline stage 1: 1 parameter groups" in run.text
    assert run.losses is not None
    assert run.losses == expected.losses


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_pipeline_hangs_without_the_repair(ranks: int) -> None:
    """Only a limit can show a hang; a whole repaired run takes a tenth of this one per step."""
    run = run_pipeline("--time-limit", "40", ranks=ranks)

    assert run.status != 0
    assert run.losses is None
    assert "Timeout (0:00:40)!" in run.text
    assert "stage_1_and_2.py" in run.text  # one stage waits in ZeRO's step
