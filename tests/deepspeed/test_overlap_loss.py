"""examples/overlap_loss.py: its table, its message without matplotlib, and what it must show."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from tests.deepspeed.training import ROOT

SCRIPT = ROOT / "examples" / "overlap_loss.py"


@pytest.fixture
def overlap_loss(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    specification = importlib.util.spec_from_file_location("overlap_loss", SCRIPT)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "overlap_loss", module)
    specification.loader.exec_module(module)
    return module


def test_the_table_compares_each_run_with_its_own_run_without_overlap(
    overlap_loss: ModuleType,
) -> None:
    """A repaired release is compared with its release, the own reducer with itself."""
    curve = overlap_loss.Curve
    curves = [
        curve("0.9.5", "deepspeed", "bf16", "off", [4.0, 3.0]),
        curve("0.9.5", "deepspeed", "bf16", "on", [4.0, 3.25]),
        curve("0.9.5", "repair", "bf16", "on", [4.0, 3.0]),
        curve("0.9.5", "own", "bf16", "off", [4.0, 2.5]),
        curve("0.9.5", "own", "bf16", "on", [4.0, 2.5]),
    ]

    rows = overlap_loss.table(curves).splitlines()[2:]

    assert rows == [
        "| DeepSpeed 0.9.5 | bf16 | 3.0000 | 3.2500 | 0.2500 |",
        "| DeepSpeed 0.9.5 repaired | bf16 | 3.0000 | 3.0000 | 0, bit by bit |",
        "| streamguard.zero | bf16 | 2.5000 | 2.5000 | 0, bit by bit |",
    ]


def test_without_matplotlib_the_plot_is_refused_before_anything_is_trained() -> None:
    """The message names the extra that brings it; the status is that of wrong usage."""
    program = (
        "import runpy, sys\n"
        "sys.path = [path for path in sys.path if 'site-packages' not in path]\n"
        "sys.argv = ['overlap_loss.py', '--plot', 'x.png']\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 2, done.stderr
    assert 'pip install "streamguard[chart]"' in done.stderr
    assert "training:" not in done.stderr


@pytest.mark.deepspeed_matrix
def test_overlap_changes_the_loss_of_the_racy_release_and_of_nothing_else() -> None:
    """0.14.2 trains on other numbers; repaired, and with the own reducer, it does not."""
    command = [sys.executable, str(SCRIPT), "--releases", "0.14.2", "--steps", "6"]
    done = subprocess.run([*command, "--dtypes", "bf16"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr[-4000:]
    last = {row.split("|")[1].strip(): row.split("|")[-2].strip() for row in rows_of(done.stdout)}
    assert last.keys() == {"DeepSpeed 0.14.2", "DeepSpeed 0.14.2 repaired", "streamguard.zero"}
    assert float(last["DeepSpeed 0.14.2"]) > 0
    assert last["DeepSpeed 0.14.2 repaired"] == "0, bit by bit"
    assert last["streamguard.zero"] == "0, bit by bit"


def rows_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")][1:]
