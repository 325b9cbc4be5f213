"""Copies between host, device and peers arrive, also when they convert."""

from __future__ import annotations

import pytest

from tests.vgpu.values_program import SCHEDULES, result_of

COPIES = {
    "pageable to device and back": "x.to('cuda:0').cpu()",
    "pinned to device and back": """
        x.pin_memory().to('cuda:0', non_blocking=True).cpu()
    """,
    "device to pinned without blocking": """
        pinned.copy_(x.to('cuda:0'), non_blocking=True)
        torch.cuda.synchronize()
        result = pinned.clone()
    """,
    "non-contiguous to device": "x.to('cuda:0').t().contiguous().cpu().t()",
    "non-contiguous from host": "x.t().to('cuda:0').cpu().t()",
    "converting to device": "x.double().to('cuda:0', torch.float32).cpu()",
    "converting from device": "x.to('cuda:0').double().to('cpu', torch.float32)",
    "peer": "x.to('cuda:0').to('cuda:1').cpu()",
    "peer non-contiguous": "x.to('cuda:0').t().to('cuda:1').cpu().t()",
    "peer converting": "x.to('cuda:0').to('cuda:1', torch.float64).float().cpu()",
    "peer into a strided view": """
        target = torch.zeros(6, 8, device='cuda:1')
        target[:, ::2].copy_(x.to('cuda:0'))
        result = target[:, ::2].cpu()
    """,
    "peer broadcast": """
        target = torch.zeros(6, 4, device='cuda:1')
        target.copy_(x.to('cuda:0')[:1])
        result = target.cpu() - x[:1] + x
    """,
    "peer conjugate": """
        pairs = torch.complex(x, x).to('cuda:0').conj()
        result = -pairs.to('cuda:1').imag.cpu()
    """,
    "peer after work on a side stream": """
        side = torch.cuda.Stream('cuda:0')
        with torch.cuda.device('cuda:0'), torch.cuda.stream(side):
            moved = (x.to('cuda:0') * 1).t().to('cuda:1')
        result = moved.cpu().t()
    """,
}


def _program() -> str:
    lines = ["x = torch.arange(24.0).view(6, 4) / 7", "pinned = torch.zeros(6, 4).pin_memory()"]
    lines.append("outcome = {}")
    for name, copy in COPIES.items():
        statements = [line.strip() for line in copy.strip().splitlines()]
        if len(statements) == 1:
            statements[0] = f"result = {statements[0]}"
        if statements[0].startswith("side"):
            statements[2] = "    " + statements[2]
        lines += [*statements, f"outcome[{name!r}] = torch.equal(result, x)"]
    return "\n".join([*lines, "print(json.dumps(outcome))"])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_copy_arrives(schedule: str) -> None:
    """Each way from host to device, between devices and back gives the bits that were sent."""
    outcome = result_of(_program(), schedule=schedule, devices=2)

    assert dict.fromkeys(COPIES, True) == outcome
