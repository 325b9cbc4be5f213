"""Stages with unequal optimizer groups: said before the first step, named as they hang."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamguard.collectives.record import read_logs
from tests.collectives.launch import launch

HANG_AFTER_S = 4


def test_the_plans_are_compared_before_the_first_step(tmp_path: Path) -> None:
    """One report names both stages' groups and the two norm reductions against one."""
    outcome = launch(
        "pipeline_stages.py", "fp32", "1", ranks=2, output=tmp_path, awaited="program",
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_HANG_AFTER=str(HANG_AFTER_S),
    )  # fmt: skip

    assert len(outcome.plans) == 1, outcome.text[-3000:]
    text = str(outcome.plans[0]["text"])
    # 64 x 16 weights on stage 0; 16 x 16 weights, 16 biases and 32 of the norm on stage 1.
    assert (
        "rank 0 has optimizer groups [decay 0.1: 1024 elements], rank 1 has [decay 0.1: 256 "
        "elements, no_decay: 48 elements]: step() will all-reduce the norm 1 × against 2 × on the "
        "group of ranks 0, 1; it hangs"
    ) in text
    assert outcome.texts[0].index("SG316") < outcome.texts[0].index("before the first step")


@pytest.mark.long
def test_the_watch_names_both_ranks_lines(tmp_path: Path) -> None:
    """Without the plan check the report has the norm's line and the next collective's."""
    outcome = launch(
        "pipeline_stages.py", "fp32", "1", ranks=2, output=tmp_path, awaited="program",
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_HANG_AFTER=str(HANG_AFTER_S),
        STREAMGUARD_PLAN_CHECK="0",
    )  # fmt: skip

    assert outcome.plans == []
    programs = [r for r in outcome.reports if r["kind"] == "program"]
    assert programs, outcome.text[-3000:]
    text = str(programs[0]["text"])
    waits = [line.strip() for line in text.splitlines() if " waits in " in line]
    assert len(waits) == 2, text
    assert re.fullmatch(
        r"rank 0 waits in broadcast float32 \[2\] root 1 #0 of .* for rank 1  at engine.py:\d+ in "
        r"_aggregate_total_loss, from pipeline_stages.py:\d+", waits[0],
    ), text  # fmt: skip
    assert re.fullmatch(
        r"rank 1 waits in all_reduce sum float32 \[1\] #\d+ of .* for rank 0  at "
        r"stage_1_and_2.py:\d+ in get_grad_norm_direct, from pipeline_stages.py:\d+", waits[1],
    ), text  # fmt: skip
    # The hang begins with the later of the two calls.
    begun = [float(log.records["begin_ns"].max()) / 1e9 for log in read_logs(tmp_path)]
    waited_s = float(str(programs[0]["time"])) - max(begun)
    assert HANG_AFTER_S <= waited_s <= HANG_AFTER_S + 5


@pytest.mark.long
def test_one_norm_for_all_groups_stays_silent(tmp_path: Path) -> None:
    """The same groups under BF16_Optimizer."""
    outcome = launch(
        "pipeline_stages.py", "bf16", "3", ranks=2, output=tmp_path,
        STREAMGUARD_COLLECTIVES="async", STREAMGUARD_HANG_AFTER="60",
    )  # fmt: skip

    assert outcome.statuses == [0, 0], outcome.text[-3000:]
    assert "BF16_Optimizer" in outcome.texts[0]
    assert (outcome.plans, outcome.reports) == ([], [])
