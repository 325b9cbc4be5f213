"""The collectives of the reducer, under the names that the running torch has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.distributed as distributed

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

# torch 2.14 deprecates `reduce_scatter_tensor` and `all_gather_into_tensor` for these names.
_REDUCE_SCATTER = getattr(distributed, "reduce_scatter_single", None) or (
    distributed.reduce_scatter_tensor
)
_ALL_GATHER = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor


def reduce_scatter_in_place(bucket: Tensor, *, group: ProcessGroup) -> Tensor:
    """Sum a bucket over the ranks; afterwards each rank's own part of it holds that part's sum.

    Runs on the current stream. The other parts stay as they were.

    Args:
        bucket: Shape [parts * n], contiguous.
        group: `parts` ranks.

    Returns:
        The rank's own part, shape [n], a view of `bucket`.
    """
    own = own_part(bucket, group=group)
    _REDUCE_SCATTER(own, bucket, group=group)
    return own


def reduce_to_owner(values: Tensor, owner: int, *, group: ProcessGroup) -> None:
    """Sum `values` over the ranks into those of one rank, on the current stream.

    Args:
        values: Shape [n], contiguous; undefined afterwards on the other ranks.
        owner: Rank in `group`.
        group: Ranks to sum over.
    """
    distributed.reduce(values, group=group, group_dst=owner)


def all_gather_in_place(bucket: Tensor, *, group: ProcessGroup) -> None:
    """Fill a bucket from the own parts of all ranks, on the current stream."""
    _ALL_GATHER(bucket, own_part(bucket, group=group), group=group)


def own_part(bucket: Tensor, *, group: ProcessGroup) -> Tensor:
    """Return the part of a bucket that this rank owns, as a view."""
    length = bucket.numel() // distributed.get_world_size(group)
    return bucket.narrow(0, distributed.get_rank(group) * length, length)
