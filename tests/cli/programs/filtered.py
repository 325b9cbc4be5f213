"""Five races under filters: prints, as JSON, what each filter lists, leaves out and concludes."""

from __future__ import annotations

import json
from collections import OrderedDict

import torch
from torch import nn

import streamguard
from streamguard import session


class Leaky(nn.Module):
    """Reads on the current stream what it made on another one."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            made = inputs.neg()
        if is_ordered:
            torch.cuda.current_stream().wait_stream(side)
        return made.abs()


side = torch.cuda.Stream()
is_ordered = False
layers = [(name, nn.Linear(16, 16, bias=False)) for name in ("first", "second")]
model = nn.Sequential(OrderedDict([*layers, ("leaky", Leaky()), ("again", Leaky())])).cuda()
inputs = torch.ones(4, 16, device="cuda")
plain = torch.ones(16, device="cuda")
model.first.weight.grad = torch.ones(16, 16, device="cuda")


def write_on_side(call: object) -> None:
    """Let a write on the side stream be followed by what may not wait for it."""
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        call()
    if is_ordered:
        torch.cuda.current_stream().wait_stream(side)


def race() -> None:
    """`add_` with the first layer, `mul_` with the second, `neg` inside the third, `sub_` and
    `fill_` outside of any call."""
    for write in (
        lambda: model.first.weight.data.add_(1),
        lambda: model.second.weight.data.mul_(2),
    ):
        write_on_side(write)
        model(inputs)
    write_on_side(lambda: model.first.weight.grad.sub_(1))
    model.first.weight.grad.sqrt()
    session.name_region(
        plain.data_ptr(),
        plain.data_ptr() + plain.nbytes,
        "ipg_buckets[torch.bfloat16].buffer[0]",
        aliases=("ipg_buffer[0]",),
    )
    session.name_region(
        plain.data_ptr(),
        plain.data_ptr() + plain.nbytes,
        "ipg_buckets[torch.bfloat16].buffer[0], gradient of bucketed.weight",
    )
    write_on_side(lambda: plain.fill_(1))
    plain.sqrt()
    torch.cuda.synchronize()


def outcome(**filters: list[str]) -> list[object]:
    """First ops of what is listed, how many races are left out, unmatched patterns, verdict."""
    with streamguard.watch(**filters) as watching:
        race()
    report = watching.report()
    coverage = watching.coverage()
    listed = [finding.first.op.removeprefix("aten::") for finding in watching.findings()]
    left_out = dict(coverage.opaque).get(session.LEFT_OUT, 0)
    return [sorted(listed), left_out, list(report.unmatched_filters), report.status]


CASES = {
    "none": {},
    "parameter": {"tensors": ["second.*"]},
    "parameter and gradient": {"tensors": ["first.weight"]},
    "gradient": {"tensors": ["gradient of *"]},
    "alias": {"tensors": ["ipg_buffer[*]"]},
    "gradient in a bucket": {"tensors": ["bucketed.*"]},
    "module": {"modules": ["second"]},
    "ops of a module": {"modules": ["leaky"]},
    "ops of the next module": {"modules": ["again"]},
    "both": {"modules": ["first"], "tensors": ["gradient of first.*"]},
    "disjoint": {"modules": ["second"], "tensors": ["first.*"]},
    "one unmatched": {"modules": ["absent", "second"]},
    "unmatched": {"tensors": ["absent*"], "modules": ["*"]},
}
results = {name: outcome(**filters) for name, filters in CASES.items()}
is_ordered = True
results["ordered"] = outcome(modules=["second"])
print(json.dumps(results))
