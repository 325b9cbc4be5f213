"""FusedAdam and DeepSpeedCPUAdam of one release, with an extension that g++ can build.

`python -m tests.deepspeed.extension_optimizers FOLDER` prints a JSON line: what racy and ordered
steps found, how far FusedAdam is from torch's AdamW, and whether the extension is restored.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.op_builder.builder import OpBuilder

import streamguard
import tests.rules.extension_kernels

SIZE = 1024
STEPS = 5
assert tests.rules.extension_kernels.SOURCE  # its import gives the kernels their twins


def load(folder: Path, name: str) -> object:
    """Load an extension where DeepSpeed keeps those that it has built."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}{EXTENSION_SUFFIXES[0]}")
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    OpBuilder._loaded_ops[name] = extension
    return extension


def found(session: streamguard.Session) -> list[object]:
    """The findings: code, both ops and accesses, whether the second is the host's, bytes."""
    return [
        [
            finding.code,
            [finding.first.op, finding.first.kind],
            [finding.second.op, finding.second.kind, finding.second.on_host],
            finding.overlap.end - finding.overlap.begin,
        ]
        for finding in session.findings()
    ]


def fused_step(*, is_ordered: bool) -> list[object]:
    """The optimizer steps on one stream while another one writes the gradient."""
    with streamguard.watch() as session:
        parameter = torch.nn.Parameter(torch.zeros(SIZE, device="cuda"))
        parameter.grad = torch.zeros(SIZE, device="cuda")
        optimizer = FusedAdam([parameter])
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            parameter.grad.fill_(1)
        if is_ordered:
            torch.cuda.current_stream().wait_stream(side)
        optimizer.step()
    return found(session)


def host_step(*, is_ordered: bool) -> list[object]:
    """The host steps while the gradient is being copied to it."""
    with streamguard.watch() as session:
        parameter = torch.nn.Parameter(torch.zeros(SIZE).pin_memory())
        parameter.grad = torch.zeros(SIZE).pin_memory()
        gradient = torch.ones(SIZE, device="cuda")
        optimizer = DeepSpeedCPUAdam([parameter])
        torch.cuda.synchronize()
        parameter.grad.copy_(gradient, non_blocking=True)
        if is_ordered:
            torch.cuda.current_stream().synchronize()
        optimizer.step()
    return found(session)


def train(device: str, kind: type[torch.optim.Optimizer]) -> torch.Tensor:
    """Some steps of a perceptron: its parameters on the CPU."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model.to(device)
    optimizer = kind(model.parameters(), lr=1e-2, weight_decay=1e-2)
    for step in range(STEPS):
        inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(step)).to(device)
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])


def main() -> None:
    """Run all of it."""
    folder = Path(sys.argv[1])
    fused, host = load(folder, "fused_adam"), load(folder, "cpu_adam")
    functions = (fused.multi_tensor_adam, host.adam_update)
    difference = train("cuda", FusedAdam) - train("cpu", torch.optim.AdamW)
    result = {
        "fused racy": fused_step(is_ordered=False),
        "fused ordered": fused_step(is_ordered=True),
        "host racy": host_step(is_ordered=False),
        "host ordered": host_step(is_ordered=True),
        "difference": float(difference.abs().max()),
        "is restored": functions == (fused.multi_tensor_adam, host.adam_update),
    }
    print(json.dumps(result))


main()
