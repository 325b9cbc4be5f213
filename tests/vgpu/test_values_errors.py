"""What cannot be computed is said, by name."""

from __future__ import annotations

from tests.vgpu.values_program import result_of, start

OUT_OF_RANGE = """
    table = torch.zeros(4, 2, device="cuda")
    index = torch.tensor([1, 9], device="cuda")
"""


def test_failed_twin_surfaces_at_a_later_op() -> None:
    """Under lazy the lookup itself returns; the next op after the synchronisation raises."""
    raised = result_of(
        OUT_OF_RANGE
        + """
    raised = []
    rows = table.index_select(0, index)
    raised.append("issued")
    torch.cuda.synchronize()
    try:
        table + 1
    except RuntimeError as error:
        raised.append(str(error))
    raised.append((table + 1).sum().item())
    print(json.dumps(raised))
    """,
        schedule="lazy",
    )

    assert len(raised) == 3, raised
    assert (raised[0], raised[2]) == ("issued", 8.0)
    assert "aten::index_select" in raised[1]
    assert "index out of range" in raised[1]


def test_failed_twin_surfaces_where_its_result_is_read() -> None:
    """Reading a value back forces the twin, and the read raises its error."""
    raised = result_of(
        OUT_OF_RANGE
        + """
    try:
        table.index_select(0, index)[0, 0].item()
    except RuntimeError as error:
        print(json.dumps(str(error)))
    """,
        schedule="lazy",
    )

    assert "aten::index_select" in raised


def test_eager_raises_in_the_op_itself() -> None:
    """Where the twin runs at issue its failure is the op's own."""
    raised = result_of(
        OUT_OF_RANGE
        + """
    try:
        table.index_select(0, index)
    except RuntimeError as error:
        print(json.dumps(str(error)))
    """
    )

    assert "aten::index_select" in raised


def test_failure_that_no_later_call_reports_ends_the_process() -> None:
    """At exit the message goes to standard error and the status says that something went wrong."""
    program = (
        OUT_OF_RANGE
        + """
    rows = table.index_select(0, index)
    torch.cuda.synchronize()
    print("end of program")
    """
    )

    run = start(program, schedule="lazy")

    assert (run.returncode, run.stdout) == (70, "end of program\n")
    assert "aten::index_select" in run.stderr


def test_op_without_values_warns_once_by_name() -> None:
    """Two calls, one warning; the coverage counts both."""
    messages, not_computed = result_of(
        """
        import warnings
        x, statistic = torch.ones(3, 2, device="cuda"), torch.ones(1, 2, device="cuda")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                torch.batch_norm_gather_stats(x, statistic, statistic, None, None, 0.1, 0.1, 3)
        messages = [str(one.message) for one in caught if "no values" in str(one.message)]
        print(json.dumps([messages, dict(values.coverage().not_computed)]))
        """
    )

    assert len(messages) == 1, messages
    assert "aten::batch_norm_gather_stats" in messages[0]
    assert not_computed == {"aten::batch_norm_gather_stats": 2}


def test_operators_say_what_is_computed() -> None:
    """Ordinary, data-dependent and device-only operators are told apart."""
    treatments = result_of(
        """
        print(json.dumps({operator.name: operator.treatment for operator in values.operators()}))
        """
    )

    expected = {
        "aten::add.Tensor": "twin",
        "aten::_fused_adamw_": "twin",
        "aten::nonzero": "at issue",
        "aten::linalg_qr": "dry run",
        "aten::copy_": "copy",
        "aten::_cudnn_rnn": "not computed",
        "aten::quantize_per_tensor": "not computed",
        "aten::mode": "at issue",
    }
    assert expected == {name: treatments[name] for name in expected}
    assert "aten::view" not in treatments


def test_undo_makes_the_overrides_pass_on() -> None:
    """After undo nothing is computed; installing again computes as before."""
    totals = result_of(
        """
        undo = values.install()
        before = values.coverage().twins
        undo()
        torch.ones(3, device="cuda")
        while_off = values.coverage().twins - before
        values.install()
        print(json.dumps([while_off, torch.ones(3, device="cuda").sum().item()]))
        """
    )

    assert totals == [0, 3.0]
