"""Reports that are limited to tensors and modules of some names."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import clean_environment, run, streamguard, summary

PROGRAMS = Path(__file__).parent / "programs"

RACY = """
import torch
from torch import nn
side = torch.cuda.Stream()
model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)).cuda()
torch.cuda.synchronize()
with torch.cuda.stream(side):
    model[1].weight.data.mul_(2)
model(torch.ones(4, 16, device="cuda"))
torch.cuda.synchronize()
"""


def test_a_filter_lists_what_fits_and_counts_the_rest(tmp_path: Path) -> None:
    """Per filter: listed first ops, pairs left out, patterns that fit nothing, verdict."""
    environ = clean_environment(STREAMGUARD_VGPU="1")
    result = run("python", str(PROGRAMS / "filtered.py"), cwd=tmp_path, environ=environ)
    assert result.returncode == 0, result.stderr

    assert json.loads(result.stdout.splitlines()[-1]) == {
        "none": [["add_", "fill_", "mul_", "neg", "sub_"], 0, [], "races"],
        "parameter": [["mul_"], 4, [], "races"],
        "parameter and gradient": [["add_", "sub_"], 3, [], "races"],
        "gradient": [["fill_", "sub_"], 3, [], "races"],
        "alias": [["fill_"], 4, [], "races"],
        "gradient in a bucket": [["fill_"], 4, [], "races"],
        "module": [["mul_"], 4, [], "races"],
        "ops of a module": [["neg"], 4, [], "races"],
        "ops of the next module": [["neg"], 4, [], "races"],
        "both": [["sub_"], 4, [], "races"],
        "disjoint": [[], 5, [], "clean"],
        "one unmatched": [["mul_"], 4, ["modules absent"], "races"],
        "unmatched": [[], 5, ["tensors absent*"], "checked-nothing"],
        "ordered": [[], 0, [], "clean"],
    }


def test_a_rank_writes_only_what_fits(tmp_path: Path) -> None:
    """The same run is racy, clean with one race left out, or no check, by its filter."""
    (tmp_path / "racy.py").write_text(RACY)

    def status(*filters: str) -> tuple[int, str]:
        command = ("run", "--vgpu", "1", *filters, "--", "python", "racy.py")
        result = streamguard(*command, cwd=tmp_path)
        return result.returncode, result.stderr

    code, text = status("--tensors", "1.weight")
    assert (code, "status=races" in summary(text)) == (66, True), text
    code, text = status("--modules", "0")
    assert (code, "status=clean" in summary(text)) == (0, True), text
    assert "races on other tensors or in other modules 1" in text
    code, text = status("--tensors", "absent,ipg_buffer[0]")
    assert (code, "status=checked-nothing" in summary(text)) == (67, True), text
    assert "incomplete: no tensor is called 'absent' (--tensors)" in text
    assert "incomplete: no tensor is called 'ipg_buffer[0]' (--tensors)" in text
    assert "checked nothing: the filter fits nothing" in text
