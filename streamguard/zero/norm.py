"""Norm and overflow of all gradients: one collective of fixed size, whatever each rank owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as distributed

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

_CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_


@dataclass(frozen=True, slots=True)
class GlobalNorm:
    """The same on every rank, on the device; reading a value makes the host wait.

    Attributes:
        norm: 2-norm of all gradients as they are in the shards, float64, shape [].
        not_finite: Number of fragments with an infinity or NaN, float64, shape [].
    """

    norm: Tensor
    not_finite: Tensor


def global_norm(
    gradients: Sequence[Tensor], *, group: ProcessGroup, device: torch.device
) -> GlobalNorm:
    """Norm over all fragments of all ranks in `group`; runs on the current stream.

    Args:
        gradients: This rank's fragments, each counted on one rank only; may be empty.
        group: All ranks that own a part, model-parallel ones too. Each calls this once a step.
        device: Where the result lies.
    """
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    if gradients:
        norms = torch.stack(torch._foreach_norm(list(gradients), 2, dtype=torch.float32)).double()
        sums[0] = norms.square().sum()
        sums[1] = (~norms.isfinite()).sum()
    distributed.all_reduce(sums, group=group)
    return GlobalNorm(sums[0].sqrt(), sums[1])


def clip_factor(norm: Tensor, max_norm: float) -> Tensor:
    """Factor that brings gradients of this norm down to `max_norm`; at most 1; NaN stays NaN."""
    return (max_norm / (norm + _CLIP_EPSILON)).clamp(max=1.0)
