"""The virtual GPU computes what DeepSpeed should compute, and the race changes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deepspeed.training import ROOT, train

STEPS = 3


def reference_losses(*, ranks: int, layers: int = 4, width: int = 32) -> list[float]:
    """Return rank 0's losses of the same training in plain torch on the CPU."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    # torch's CUDA build is loadable only on the virtual GPU; the reference stays on the CPU.
    environment |= {"STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_VALUES": "0"}
    numbers = map(str, (ranks, STEPS, layers, width, 0))
    done = subprocess.run(
        [sys.executable, "-m", "tests.deepspeed.reference", *numbers],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [float(loss) for loss in json.loads(done.stdout.splitlines()[-1])]


@pytest.mark.parametrize("stage", ["1", "2", "3"])
def test_fp32_losses_equal_two_shards_in_plain_torch(stage: str, tmp_path: Path) -> None:
    """Two ranks of ZeRO train as one process does with the mean of both shards' gradients."""
    expected = reference_losses(ranks=2)

    run = train("0.19.8", "--dtype", "fp32", "--stage", stage, output=tmp_path / "out")

    assert run.losses == pytest.approx(expected, abs=1e-5)


def test_bf16_losses_of_a_clean_release_do_not_depend_on_overlap_or_schedule(
    tmp_path: Path,
) -> None:
    """0.19.8 gives the same bits with and without overlap, eagerly and lazily."""
    serial = train("0.19.8", "--no-overlap", output=tmp_path / "serial")

    eager = train("0.19.8", output=tmp_path / "eager")
    lazy = train("0.19.8", output=tmp_path / "lazy", schedule="lazy")

    assert eager.losses == serial.losses
    assert lazy.losses == serial.losses


def test_bf16_losses_of_the_racy_release_are_wrong_when_reductions_run_late(
    tmp_path: Path,
) -> None:
    """0.17.2 trains on other numbers when the default stream runs ahead: the finding matters."""
    serial = train("0.17.2", "--no-overlap", output=tmp_path / "serial")

    late = train("0.17.2", output=tmp_path / "late", schedule="extreme:0,1")

    assert late.status == 66
    assert late.losses[0] == serial.losses[0]  # the first loss comes before any gradient
    assert late.losses[1:] != serial.losses[1:]


@pytest.mark.deepspeed_matrix
def test_bf16_losses_of_the_repaired_release_are_right_when_reductions_run_late(
    tmp_path: Path,
) -> None:
    """0.18.5, the repair of that race, gives the same bits under that schedule and lazily."""
    serial = train("0.18.5", "--no-overlap", output=tmp_path / "serial")

    for schedule in ("lazy", "extreme:0,1"):
        late = train("0.18.5", output=tmp_path / schedule, schedule=schedule)

        assert late.status == 0
        assert late.losses == serial.losses
