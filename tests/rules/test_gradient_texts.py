"""A gradient is called by its parameter and the bucket it lies in, also when the text was known."""

from __future__ import annotations

from pathlib import Path

from tests.rules.programs import run

BEGIN = """
    import streamguard._hooks as hooks

    texts = hooks.GradientTexts()
    parameter = torch.nn.Parameter(torch.ones(8, device="cuda"))
    buckets = [torch.zeros(64, device="cuda") for _ in range(2)]
    texts.set_buckets([(buckets[0], "bucket 0"), (buckets[1], "bucket 1")])

    def learn(text):
        texts.learn(parameter, None, text)

    def is_named():
        return texts.name(parameter, None, hooks.current_op() + 1)
"""
RACE = """
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        parameter.grad.fill_(1)
    parameter.grad.add_(1)
"""


def test_a_text_holds_for_the_bucket_it_was_learnt_in(tmp_path: Path) -> None:
    """In another bucket the gradient needs another text; the finding shows the right one."""
    outcome = run(
        tmp_path,
        BEGIN
        + """
    parameter.grad = buckets[0][8:16]
    assert not is_named()
    learn("bucket 0, gradient of p")
    assert is_named()
    parameter.grad = buckets[1][:8]
    assert not is_named()
    learn("an older text")
    learn("bucket 1, gradient of p")
    parameter.grad = buckets[0][16:24]
    assert is_named()
    parameter.grad = buckets[1][32:40]
    assert is_named()
"""
        + RACE,
    )

    names = [named["name"] for named in outcome.findings[0]["overlap"]["names_second"]]
    assert names == ["bucket 1, gradient of p"]


def test_outside_of_the_buckets_nothing_is_known(tmp_path: Path) -> None:
    """A bucket that is gone has no name, whatever lies at its bytes; nor has a new one yet."""
    run(
        tmp_path,
        BEGIN
        + """
    parameter.grad = torch.zeros(8, device="cuda")
    learn("gradient of p")
    assert not is_named()
    parameter.grad = buckets[1][:8]
    learn("bucket 1, gradient of p")
    assert is_named()
    address = buckets[1].data_ptr()
    parameter.grad = None
    assert is_named()  # there is nothing to name
    del buckets[1]
    new = torch.zeros(64, device="cuda")
    assert new.data_ptr() == address
    parameter.grad = new[:8]
    assert not is_named()
""",
    )


def test_a_parameter_at_the_address_of_another_has_no_text(tmp_path: Path) -> None:
    """Objects are told apart by life, not by address."""
    run(
        tmp_path,
        BEGIN
        + """
    for _ in range(50):
        parameter = torch.nn.Parameter(torch.ones(8, device="cuda"))
        parameter.grad = buckets[0][:8]
        assert not is_named()
        learn("bucket 0, gradient of p")
        assert is_named()
""",
    )


def test_an_own_gradient_is_named_in_its_place(tmp_path: Path) -> None:
    """Where gradients are accumulated elsewhere, that tensor is given."""
    outcome = run(
        tmp_path,
        BEGIN
        + """
    own = buckets[0][:8]
    texts.learn(parameter, own, "bucket 0, gradient of p")
    assert texts.name(parameter, own, hooks.current_op() + 1)
    parameter.grad = own
"""
        + RACE,
    )

    names = [named["name"] for named in outcome.findings[0]["overlap"]["names_first"]]
    assert names == ["bucket 0, gradient of p"]
