"""Programs that wait as they should show nothing in 200 steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import summary
from tests.frameworks import programs

pytestmark = pytest.mark.frameworks

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]


def watched(directory: Path, *command: str, devices: int = 1) -> tuple[int, str]:
    """Run a command under `streamguard run`; return its status and what it printed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    options = ["--vgpu", str(devices), "--output", str(directory / "out")]
    done = subprocess.run(
        [str(BIN / "streamguard"), "run", *options, "--", *command],
        env={**inherited, "OMP_NUM_THREADS": "1", "STREAMGUARD_VGPU_VALUES": "0"},
        cwd=directory, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def launcher(ranks: int) -> tuple[str, ...]:
    if ranks == 1:
        return (sys.executable,)
    return (str(BIN / "torchrun"), "--standalone", "--nproc_per_node", str(ranks))


@pytest.mark.parametrize(
    ("program", "ranks", "ops"),
    [
        pytest.param(programs.TRANSFORMERS, 1, 40_000, id="transformers-Trainer"),
        pytest.param(programs.LIGHTNING, 1, 5_000, id="Lightning"),
        pytest.param(programs.PREFETCHER_RIGHT, 1, 2_000, id="prefetcher"),
        pytest.param(programs.DDP, 2, 10_000, id="DDP"),
        pytest.param(programs.FSDP2, 2, 10_000, id="FSDP2"),
    ],
)
def test_a_right_program_shows_nothing(tmp_path: Path, program: str, ranks: int, ops: int) -> None:
    """Every launch lies in an observed op, and no pair is without order."""
    (tmp_path / "program.py").write_text(program)

    status, text = watched(tmp_path, *launcher(ranks), "program.py", devices=ranks)

    assert status == 0, text[-4000:]
    assert summary(text).startswith("SUMMARY streamguard races=0 misuses=0 ")
    assert f" ranks={ranks}/{ranks} " in summary(text)
    assert int(summary(text).split(" ops=")[1].split()[0]) >= ops
    assert "kernel " not in text.split("coverage rank 0")[1]


def test_the_newest_deepspeed_shows_nothing(tmp_path: Path) -> None:
    """ZeRO-2 with overlap, as the example trains it."""
    example = str(ROOT / "examples" / "train_zero2.py")

    status, text = watched(tmp_path, *launcher(2), example, "--steps", "200", devices=2)

    assert status == 0, text[-4000:]
    assert summary(text).startswith("SUMMARY streamguard races=0 misuses=0 ranks=2/2 ")


def test_a_prefetcher_without_its_wait_is_reported(tmp_path: Path) -> None:
    """The twin of the right prefetcher differs in one wait."""
    (tmp_path / "program.py").write_text(programs.PREFETCHER_WRONG)

    status, text = watched(tmp_path, sys.executable, "program.py")

    assert status == 66, text[-4000:]
    assert "SG001 read-after-write race: aten::addmm on default stream (device 0)" in text
