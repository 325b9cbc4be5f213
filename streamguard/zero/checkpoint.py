"""Shards as torch.distributed.checkpoint saves them, and loads them at any world size."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.distributed as distributed

from streamguard.zero.reducer import GradientReducer
from streamguard.zero.shards import Fragment

with warnings.catch_warnings():
    # torch deprecates its ShardedTensor in favour of DTensor, which cannot hold uneven ranges.
    warnings.simplefilter("ignore")
    from torch.distributed._shard.sharded_tensor import (
        Shard,
        ShardedTensor,
        ShardedTensorMetadata,
        ShardMetadata,
        TensorProperties,
    )

if TYPE_CHECKING:
    from torch import Tensor


def sharded_tensors(
    reducer: GradientReducer, values: Mapping[Fragment, Tensor]
) -> dict[int, ShardedTensor]:
    """Return a flat sharded tensor for each parameter of which this rank has fragments.

    Their local shards are the given tensors themselves: what is loaded into them is loaded.
    Issues no collective, since the layout tells where all other shards are.

    Args:
        reducer: Its layout and groups.
        values: A value of shape [length] for every fragment of this rank.
    """
    by_parameter: dict[int, list[Fragment]] = {}
    for fragment in values:
        by_parameter.setdefault(fragment.parameter, []).append(fragment)
    tensors = {}
    for parameter, fragments in by_parameter.items():
        first = values[fragments[0]]
        group = reducer.spaces[reducer.layout.buckets[fragments[0].bucket].space].process_group
        metadata = ShardedTensorMetadata(
            shards_metadata=_all_shards(reducer, parameter),
            size=torch.Size([reducer.parameters[parameter].numel()]),
            tensor_properties=TensorProperties(dtype=first.dtype, requires_grad=False),
        )
        local = [
            Shard(values[f], _shard(f.begin, f.length, distributed.get_rank())) for f in fragments
        ]
        tensors[parameter] = ShardedTensor._init_from_local_shards_and_global_metadata(
            local, metadata, process_group=group
        )
    return tensors


def _all_shards(reducer: GradientReducer, parameter: int) -> list[ShardMetadata]:
    shards = []
    for bucket, _ in reducer.layout.pieces_of(parameter):
        group = reducer.spaces[bucket.space].process_group
        for part in range(bucket.parts):
            rank = distributed.get_global_rank(group, part)
            shards += [
                _shard(piece.begin, piece.length, rank)
                for piece in bucket.owned(part)
                if piece.parameter == parameter
            ]
    return sorted(shards, key=lambda shard: shard.shard_offsets)


def _shard(begin: int, length: int, rank: int) -> ShardMetadata:
    # The device's number is not known for other ranks, and checkpoints do not use it.
    device = torch.cuda.current_device() if rank == distributed.get_rank() else 0
    return ShardMetadata([begin], [length], f"rank:{rank}/cuda:{device}")
