"""Programs that tests of the reducer run on every rank; each returns what JSON can hold."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

import torch
import torch.distributed as distributed

from streamguard.vgpu import describe
from streamguard.zero import ZeroOptimizer
from tests.zero import random_models


def digest(tensors: list[torch.Tensor]) -> str:
    """One text for the bytes of all tensors."""
    sums = hashlib.sha256()
    for tensor in tensors:
        sums.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return sums.hexdigest()[:16]


def train_random_models(rank: int, ranks: int, argument: dict[str, Any]) -> list[dict[str, Any]]:
    """Train one model after the other; compare every gradient with the plain sum."""
    return [_train(seed, rank, argument["overlap"]) for seed in argument["seeds"]]


def _train(seed: int, rank: int, overlap: bool) -> dict[str, Any]:
    drawn, model = random_models.build(seed)
    _, plain = random_models.build(seed)
    plain.streams = model.streams
    optimizer = ZeroOptimizer(
        model, torch.optim.AdamW, lr=1e-2, overlap=overlap, overlap_gather=overlap, **drawn.options
    )
    seen: list[torch.Tensor] = []
    worst = 0.0
    for step in range(random_models.STEPS):
        with torch.no_grad():
            for target, source in zip(plain.parameters(), model.parameters(), strict=True):
                optimizer.wait_for_parameters()
                target.copy_(source)
        expected, magnitude = random_models.expected_gradients(seed, step, plain, rank)
        model.unused = drawn.unused[step]
        backwards = 0
        for micro in range(drawn.accumulation):
            is_last = micro == drawn.accumulation - 1
            syncs = is_last or drawn.syncs_every_time
            with contextlib.nullcontext() if syncs else optimizer.no_sync():
                loss = model(random_models.batch(seed, step, micro, rank))
                seen.append(loss.detach())
                if loss.requires_grad:
                    loss.backward()
                    backwards += 1
        if not backwards:
            continue
        optimizer.reducer.wait_for_shards()
        worst = max(worst, _worst_error(optimizer, expected, magnitude, drawn))
        seen += [optimizer.reducer.shards.view(f).clone() for f in optimizer.reducer.fragments]
        optimizer.step()
    optimizer.wait_for_parameters()
    stale = [p.grad is not None for p in model.parameters()]
    result = {
        "digest": digest([*seen, *(p.detach() for p in model.parameters())]),
        "worst": worst,
        "left_grads": sum(stale),
    }
    optimizer.reducer.close()
    return result


def _worst_error(
    optimizer: ZeroOptimizer,
    expected: list[torch.Tensor],
    magnitude: list[torch.Tensor],
    drawn: random_models.Plan,
) -> float:
    """Largest error in units of what rounding in the reduce dtype allows."""
    worst = 0.0
    terms = distributed.get_world_size() + 2 * drawn.accumulation + 2
    for fragment in optimizer.reducer.fragments:
        bucket = optimizer.reducer.layout.buckets[fragment.bucket]
        key = optimizer.reducer.spaces[bucket.space]
        got = optimizer.reducer.shards.view(fragment).cpu().double()
        begin, end = fragment.begin, fragment.begin + fragment.length
        exact = expected[fragment.parameter].reshape(-1)[begin:end]
        scale = magnitude[fragment.parameter].reshape(-1)[begin:end]
        epsilons = [torch.finfo(d).eps for d in (key.reduce_dtype, key.shard_dtype)]
        # Every rounding, to the nearest, errs by at most half a unit of what it rounds. Values
        # below the smallest normal number have an absolute error instead.
        tiny = torch.finfo(key.reduce_dtype).smallest_normal * terms
        allowed = max(epsilons) / 2 * terms * scale + tiny
        worst = max(worst, float(((got - exact).abs() / allowed).max()))
    return worst


def wrong_when_late(rank: int, ranks: int, argument: dict[str, Any]) -> dict[str, Any]:
    """Claims other parameters under the lazy schedule; a reducer that only `verify` must judge."""
    is_late = describe().schedule == "lazy" and argument["overlap"]
    return {
        "losses": "same",
        "gradients": "same",
        "parameters": "other" if is_late else "same",
        "rounds": 1,
        "steps": 1,
        "gradient_bytes": 0,
        "parameter_bytes": 0,
        "padding_bytes": 0,
        "memory": {"slots": 0, "shards": 0, "deferred_peak": 0, "bound": 0},
        "late_allocations": 0,
        "findings": [],
        "coverage": {
            "ops": 0,
            "accesses": 0,
            "collectives": 0,
            "waits": 0,
            "opaque_launches": 0,
            "unregistered_kernels": 0,
        },
    }
