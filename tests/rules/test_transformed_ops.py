"""Ops under functorch's transforms, inference mode and lazy views: the bytes are the tensors'."""

from __future__ import annotations

from pathlib import Path

from tests.rules.expect import assert_clean, pairs
from tests.rules.programs import run

PROGRAM = """
    from torch.func import grad, vmap
    side = torch.cuda.Stream()
    x = torch.ones(32, 32, device="cuda")
    row = torch.ones(32, device="cuda")
    numbers = torch.ones(32, dtype=torch.complex64, device="cuda")
    nothing = torch.empty(0, device="cuda")
    def in_inference_mode(function):
        with torch.inference_mode():
            return function()
    torch.cuda.synchronize()
"""
PAIR = """
    with torch.cuda.stream(side):
        {written}.fill_(2)
    {order}
    result = {read}
"""
ORDER = "torch.cuda.current_stream().wait_stream(side)"

# The op that reads first, what was written, bytes of the overlap.
READS = {
    "vmap(lambda a: a * 2)(x)": ("aten::mul", "x", 4096),
    "vmap(lambda a, b: a + b, (0, None))(x, row)": ("aten::add", "row", 128),
    "vmap(torch.sum)(x[:, ::2])": ("aten::sum", "x", 4),
    "grad(lambda a: (a * 2).sum())(row)": ("aten::mul", "row", 128),
    "in_inference_mode(lambda: row * 2)": ("aten::mul", "row", 128),
    "numbers.conj() * 2": ("aten::copy_", "numbers", 256),
    "torch.view_as_real(numbers)[:, 1] + 1": ("aten::add", "numbers", 4),
    "torch.cat([nothing, row, nothing])": ("aten::cat", "row", 128),
    "torch._foreach_add([nothing, row, x], 1)[1]": ("aten::_foreach_add", "row", 128),
    "torch.where(x > 0, x, row)": ("aten::where", "row", 128),
    "torch.nn.functional.layer_norm(x, [32], None, row)": ("aten::native_layer_norm", "row", 128),
}


def test_what_a_transformed_op_reads_is_its_bytes(tmp_path: Path) -> None:
    """Wrappers are taken off before the kernel starts; an absent tensor is no access."""
    program = PROGRAM
    for read, (_, written, _) in READS.items():
        program += PAIR.format(written=written, order="", read=read)
        program += "    torch.cuda.synchronize()\n"
    outcome = run(tmp_path, program)

    assert pairs(outcome) == [
        ("SG001", "aten::fill_", op, f"result = {read}", size)
        for read, (op, _, size) in READS.items()
    ]


def test_the_same_reads_behind_a_wait_are_clean(tmp_path: Path) -> None:
    """Each twin differs in the wait."""
    program = PROGRAM
    for read, (_, written, _) in READS.items():
        program += PAIR.format(written=written, order=ORDER, read=read)
        program += "    torch.cuda.synchronize()\n"
    assert_clean(run(tmp_path, program), ops_at_least=2 * len(READS))
