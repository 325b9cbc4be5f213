"""DeepSpeed's own optimizers, whose kernels torch's dispatcher does not see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deepspeed.training import BIN, ROOT, environment_of, merged_records
from tests.rules.extension_kernels import build

BYTES = 4 * 1024


@pytest.fixture(scope="module")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the extensions `fused_adam` and `cpu_adam`, built without nvcc."""
    folder = tmp_path_factory.mktemp("extensions")
    build(folder, "fused_adam", "cpu_adam")
    return folder


@pytest.mark.parametrize("release", ["0.17.2", "0.19.8"])
def test_fused_and_host_steps_are_accesses(release: str, extensions: Path) -> None:
    """Each pair differs in one wait; FusedAdam itself computes what AdamW does."""
    environment = {**environment_of(release), "STREAMGUARD_VGPU": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.deepspeed.extension_optimizers", str(extensions)],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])

    assert told.pop("difference") == pytest.approx(0, abs=1e-6)
    assert told == {
        "fused racy": [
            ["SG001", ["aten::fill_", "write"], ["multi_tensor_adam", "read", False], BYTES]
        ],
        "fused ordered": [],
        "host racy": [["SG005", ["aten::copy_", "write"], ["adam_update", "read", True], BYTES]],
        "host ordered": [],
        "is restored": True,
    }


@pytest.mark.long
@pytest.mark.parametrize("stage", ["2", "3"])
def test_offload_with_deepspeed_s_compiled_adam_trains_as_the_cpu_does(
    stage: str, tmp_path: Path
) -> None:
    """DeepSpeedCPUAdam as DeepSpeed compiles it, on two ranks: AdamW's numbers, and no race."""
    cache = ROOT / "build" / "torch_extensions"
    environment = {**environment_of("0.19.8"), "TORCH_EXTENSIONS_DIR": str(cache), "MAX_JOBS": "1"}
    environment["PATH"] = os.pathsep.join((str(BIN), environment["PATH"]))  # ninja
    torchrun = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", "2"]
    watched = [str(BIN / "streamguard"), "run", "--vgpu", "2", "--schedule", "lazy"]
    done = subprocess.run(
        [*watched, "--output", str(tmp_path), "--",
         *torchrun, "-m", "tests.deepspeed.cpu_adam_training", stage],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("rank ")]
    records = merged_records(tmp_path)

    assert sorted(told) == ["rank 0: equal, 3 steps", "rank 1: equal, 3 steps"]
    assert [record for record in records if record["type"] == "race"] == []
