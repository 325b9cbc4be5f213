"""The field report: which bytes ZeRO-1, 2 and 3 send for a model of 19M parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamguard.cli.main import main
from streamguard.collectives.audit import Audit, Row, audit_rank
from streamguard.collectives.record import read_logs
from tests.collectives.launch import Outcome, launch

N = 2
# neox_19m.py by hand: 6 blocks of 12 h^2 weights and 13 h biases and norms, a final norm of 2 h,
# an embedding and an output projection of v h each; h = 512, v = 128.
HIDDEN, LAYERS, VOCABULARY = 512, 6, 128
DECAY = LAYERS * 12 * HIDDEN**2 + 2 * VOCABULARY * HIDDEN
NO_DECAY = LAYERS * 13 * HIDDEN + 2 * HIDDEN
P = DECAY + NO_DECAY
HALF = 2  # bytes of float16


def _run(stage: int, output: Path, release: str | None) -> tuple[Outcome, Audit]:
    outcome = launch(
        "neox_19m.py", "--stage", str(stage), "--comms-logger", ranks=N, output=output,
        release=release, STREAMGUARD_AUDIT="1",
    )  # fmt: skip
    assert outcome.statuses == [0] * N, outcome.text[-3000:]
    log = read_logs(output)[0]
    assert log.rank == 0
    return outcome, audit_rank(log)


def _rows(audit: Audit, phase: str) -> list[Row]:
    return [row for row in audit.rows if row.phase == phase]


@pytest.mark.parametrize(
    ("stage", "release"),
    [
        (2, None),
        pytest.param(1, None, marks=pytest.mark.long),
        pytest.param(1, "0.14.0", marks=pytest.mark.long),
        pytest.param(2, "0.14.0", marks=pytest.mark.long),
    ],
)
def test_zero_1_and_2_all_reduce_twice_the_minimum(
    stage: int, release: str | None, tmp_path: Path
) -> None:
    """Gradients: all_reduce of P elements, 2.00 times what is needed; all_gather 1.00 times."""
    outcome, audit = _run(stage, tmp_path, release)
    gradients, parameters = audit.comparisons

    assert audit.scheme is not None
    assert (audit.scheme.name, audit.scheme.ranks, audit.scheme.parameters) == (
        f"ZeRO-{stage}", N, P,
    )  # fmt: skip
    # (N - 1) / N P s needed; an all_reduce sends 2 (N - 1) / N P s.
    assert (gradients.op, gradients.sent_bytes) == ("all_reduce", 2 * (N - 1) * P * HALF // N)
    assert gradients.minimum_bytes == (N - 1) * P * HALF // N
    assert gradients.ratio == 2.0
    assert (parameters.op, parameters.ratio) == ("all_gather_into_tensor", 1.0)
    assert parameters.sent_bytes == (N - 1) * P * HALF // N
    assert [f.code for f in audit.findings if f.code == "SG301"] == ["SG301"]
    finding = next(f for f in audit.findings if f.code == "SG301")
    assert finding.text.startswith(
        "gradients: all_reduce 2.00 × minimum; reduce_scatter would send 1.00 ×. DeepSpeed's "
        "`reduce_scatter: true`"
    )
    _agrees_with_comms_logger(outcome, tmp_path)
    chart = tmp_path / "chart.png"
    command = ["audit", "--from", str(tmp_path), "--chart", str(chart), "--max-ratio"]
    assert main([*command, "1.2"]) == 66
    assert main([*command, "2.1"]) == 0
    assert chart.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.parametrize("release", [None, "0.14.0"])
def test_zero_3_reduce_scatters_the_minimum(release: str | None, tmp_path: Path) -> None:
    """Gradients: reduce_scatter of P elements, 1.00 times what is needed."""
    outcome, audit = _run(3, tmp_path, release)
    gradients = audit.comparisons[0]

    assert gradients.phase == "gradients"
    assert gradients.op.startswith("reduce_scatter")
    assert gradients.sent_bytes == (N - 1) * P * HALF // N
    assert gradients.ratio == 1.0
    _agrees_with_comms_logger(outcome, tmp_path)


def test_our_own_reducer_sends_the_minimum(tmp_path: Path) -> None:
    """streamguard.zero reduce-scatters: gradients and parameters at 1.00 times what is needed."""
    outcome = launch(
        "neox_19m.py", "--stage", "2", "--own-reducer", ranks=N, output=tmp_path,
        STREAMGUARD_AUDIT="1",
    )  # fmt: skip
    assert outcome.statuses == [0] * N, outcome.text[-3000:]
    audit = audit_rank(read_logs(tmp_path)[0])
    gradients, parameters = audit.comparisons
    # STREAMGUARD_AUDIT=1 alone: rank 0 prints the audit, nobody else.
    assert [text.count("SUMMARY collectives: ") for text in outcome.texts] == [1, 0]

    assert (gradients.phase, gradients.op) == ("gradients", "reduce_scatter_tensor")
    assert (parameters.phase, parameters.op) == ("parameters", "all_gather_into_tensor")
    assert gradients.minimum_bytes == (N - 1) * P * HALF // N
    # Its parts are padded to equal lengths: a few elements more.
    assert 1.0 <= gradients.ratio < 1.001
    assert 1.0 <= parameters.ratio < 1.001
    assert [f.code for f in audit.findings if f.code == "SG301"] == []


@pytest.mark.deepspeed_matrix
@pytest.mark.parametrize("stage", [1, 2])
def test_the_own_reducer_in_deepspeed_sends_the_minimum(stage: int, tmp_path: Path) -> None:
    """Every gradient goes once, to the rank that owns it; DeepSpeed gathers as before."""
    outcome = launch(
        "neox_19m.py", "--stage", str(stage), ranks=N, output=tmp_path,
        STREAMGUARD_AUDIT="1", STREAMGUARD_REDUCER="own",
    )  # fmt: skip
    assert outcome.statuses == [0] * N, outcome.text[-3000:]
    for log in read_logs(tmp_path):
        audit = audit_rank(log)
        gradients, parameters = audit.comparisons

        assert (gradients.phase, gradients.op) == ("gradients", "reduce")
        assert gradients.sent_bytes == gradients.minimum_bytes == (N - 1) * P * HALF // N
        assert parameters.ratio == 1.0
        assert [f.code for f in audit.findings if f.code == "SG301"] == []


def _agrees_with_comms_logger(outcome: Outcome, output: Path) -> None:
    """DeepSpeed's own logger counted the same calls of the same sizes from the first step on."""
    printed = [t for t in outcome.texts[0].splitlines() if t.startswith("comms_logger: ")]
    assert len(printed) == 1, outcome.texts[0][-2000:]
    theirs = json.loads(printed[0].removeprefix("comms_logger: "))
    log = read_logs(output)[0]
    from streamguard.collectives.record import OPS

    ours: dict[str, dict[str, int]] = {}
    for record in log.records:
        op = OPS[int(record["op"])]
        size = str(int(record["input_bytes"]))
        ours.setdefault(op, {}).setdefault(size, 0)
        ours[op][size] += 1
    names = {"all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather_into_tensor",
             "reduce_scatter_tensor": "reduce_scatter_tensor"}  # fmt: skip
    compared = 0
    for name, op in names.items():
        for size, calls in theirs.get(name, {}).items():
            # It counts an all_gather by its input, as we do.
            assert ours[op].get(size) == calls, (name, size, calls, ours[op])
            compared += calls
    assert compared > 0
