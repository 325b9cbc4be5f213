"""What the repair reads of a ZeRO-1/2 optimizer, whatever the release calls it.

Up to 0.17.1 one bucket lies in the optimizer itself (`ipg_buffer`, `ipg_index`,
`elements_in_ipg_bucket`); from 0.17.2 on there is one for each communication dtype.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import torch


class Optimizer(Protocol):
    """The names of `DeepSpeedZeroOptimizer` that are the same from 0.9.5 to 0.19.8."""

    overlap_comm: bool
    contiguous_gradients: bool
    reduce_bucket_size: int
    reduction_stream: torch.cuda.Stream


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket as it is now.

    Attributes:
        key: Its communication dtype, or None where there is one bucket only.
        index: Which of the buffers is being filled.
        elements: How many elements of that buffer are filled; more than the bucket size where an
            oversize gradient waits, which is in no buffer.
        buffers: Flat tensors of `reduce_bucket_size` elements; two with overlap_comm, else one.
    """

    key: Hashable
    index: int
    elements: int
    buffers: Sequence[torch.Tensor]


class _BucketOfDtype(Protocol):
    index: int
    elements: int
    buffer: Sequence[torch.Tensor]


def buckets_of(optimizer: Optimizer) -> list[Bucket]:
    """Return every bucket."""
    by_dtype = _by_dtype(optimizer)
    if by_dtype is None:
        return [_single(optimizer)]
    return [_of_dtype(dtype, bucket) for dtype, bucket in by_dtype.items()]


def bucket_for(optimizer: Optimizer, parameter: torch.Tensor) -> Bucket:
    """Return the bucket that takes the gradient of `parameter`."""
    by_dtype = _by_dtype(optimizer)
    if by_dtype is None:
        return _single(optimizer)
    dtype = optimizer.get_param_comm_dtype(parameter)  # type: ignore[attr-defined]  # from 0.17.2
    return _of_dtype(dtype, by_dtype[dtype])


def set_index(optimizer: Optimizer, key: Hashable, index: int) -> None:
    """Say which buffer of a bucket is being filled, for releases with one bucket a dtype."""
    by_dtype = _by_dtype(optimizer)
    if by_dtype is not None:
        by_dtype[key].index = index


def _by_dtype(optimizer: Optimizer) -> Mapping[Hashable, _BucketOfDtype] | None:
    found = getattr(optimizer, "ipg_buckets", None)
    return cast("Mapping[Hashable, _BucketOfDtype] | None", found)


def _of_dtype(dtype: Hashable, bucket: _BucketOfDtype) -> Bucket:
    return Bucket(dtype, bucket.index, bucket.elements, bucket.buffer)


def _single(optimizer: Optimizer) -> Bucket:
    buffers = getattr(optimizer, "ipg_buffer", None) or ()
    index = getattr(optimizer, "ipg_index", 0)
    elements = optimizer.elements_in_ipg_bucket  # type: ignore[attr-defined]  # before 0.17.2
    return Bucket(None, index, elements, buffers)
