"""Sparse and nested tensors give the CPU's values: the op as a whole runs over their parts."""

from __future__ import annotations

import pytest

from tests.vgpu.values_program import SCHEDULES, result_of

SPARSE = """
def cases(device):
    torch.manual_seed(0)
    dense = (torch.rand(6, 5) * (torch.rand(6, 5) > 0.5)).to(device)
    other, vector = torch.randn(5, 4).to(device), torch.randn(5).to(device)
    coo, csr = dense.to_sparse(), dense.to_sparse_csr()
    twice = torch.sparse_coo_tensor(
        torch.tensor([[0, 0, 1], [1, 1, 2]], device=device),
        torch.tensor([1.0, 2.0, 3.0], device=device), (2, 3))
    in_place = coo.clone()
    in_place.mul_(3.0)
    table = torch.nn.Embedding(7, 3, sparse=True).to(device)
    with torch.no_grad():
        table.weight.copy_(torch.arange(21.0).view(7, 3))
    step = torch.optim.SGD(table.parameters(), lr=0.5)
    table(torch.tensor([1, 4, 1], device=device)).sum().backward()
    step.step()
    weights = dense.clone().to_sparse().requires_grad_()
    torch.sparse.mm(weights, other).sum().backward()
    return {
        "coo mm": coo @ other, "csr mm": csr @ other, "mv": coo @ vector,
        "addmm": torch.sparse.addmm(torch.ones(6, 4, device=device), coo, other),
        "dense + coo": dense + coo, "coo + coo": (coo + coo).to_dense(),
        "coo * coo": (coo * coo).to_dense(), "scaled": (coo * 2).to_dense(),
        "in place": in_place.to_dense(), "coalesce": twice.coalesce().to_dense(),
        "coo coo mm": torch.sparse.mm(coo, coo.t()).to_dense(),
        "sum": torch.sparse.sum(coo, 0).to_dense(),
        "softmax": torch.sparse.softmax(coo, 1).to_dense(),
        "mask": other.sparse_mask(other.relu().to_sparse()).to_dense(),
        "csr out": torch.addmm(torch.zeros(6, 4, device=device), csr, other),
        "embedding": table.weight.detach(), "gradient": weights.grad.to_dense(),
    }
"""

NESTED = """
def cases(device):
    torch.manual_seed(0)
    parts = [torch.randn(length, 8).to(device) for length in (3, 5, 2)]
    nested = torch.nested.nested_tensor(parts)
    pieces = lambda tensor: torch.cat([part.flatten() for part in tensor.unbind()])
    weight = torch.randn(8, 8).to(device)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval().to(device)
    padded = torch.randn(3, 5, 8).to(device)
    lengths = torch.tensor([5, 2, 3])
    mask = (torch.arange(5)[None] >= lengths[:, None]).to(device)
    with torch.no_grad():
        return {
            "padded": torch.nested.to_padded_tensor(nested, 0.5),
            "linear": pieces(torch.nn.functional.linear(nested, weight)),
            "add": pieces(nested + nested), "scaled": pieces(nested * 2.0),
            "softmax": pieces(torch.softmax(nested, -1)),
            "bmm": pieces(torch.bmm(nested, nested.transpose(1, 2).contiguous())),
            "layer norm": pieces(
                torch.nn.functional.layer_norm(nested, (8,), weight[0], weight[1])),
            "encoder": encoder(padded, src_key_padding_mask=mask),
        }
"""

COMPARE = """
import warnings
warnings.filterwarnings("ignore", message=".*prototype.*")
warnings.filterwarnings("ignore", message=".*beta state.*")
expected, found = cases("cpu"), cases("cuda")
different = [
    name for name in expected
    if not torch.allclose(found[name].cpu(), expected[name], rtol=1e-6, atol=1e-6)
]
print(json.dumps([different, len(expected), dict(values.coverage().not_computed)]))
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sparse_tensors_give_the_cpus_values(schedule: str) -> None:
    """Products, sums, coalescing, in-place scaling, gradients and a sparse optimizer step."""
    assert result_of(SPARSE + COMPARE, schedule=schedule) == [[], 17, {}]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_strided_nested_tensors_give_the_cpus_values(schedule: str) -> None:
    """Element-wise ops, products, padding, and the encoder's fast path in evaluation."""
    assert result_of(NESTED + COMPARE, schedule=schedule) == [[], 8, {}]


def test_sparse_kernel_without_values_is_named() -> None:
    """What the CPU has no kernel for is said once by name, before its results are used."""
    computed = result_of(
        """
        print(json.dumps({
            operator.name: operator.treatment for operator in values.operators()
            if operator.name.endswith(("(sparse)", "(sparse compressed)", "(nested)"))
        }))
        """
    )

    assert set(computed.values()) <= {"at issue", "not computed"}
    assert computed["aten::mm (sparse)"] == "at issue"
    assert computed["aten::to_padded_tensor (nested)"] == "at issue"
