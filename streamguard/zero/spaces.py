"""From a model's parameters to a layout: which are reduced, with whom, in which dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as distributed

from streamguard.errors import UsageError
from streamguard.zero.layout import Layout, ParameterSpec, build_layout

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.nn import Parameter

ProcessGroupOf = Callable[["Parameter"], "ProcessGroup | None"]


@dataclass(frozen=True, slots=True)
class SpaceKey:
    """What the parameters of one space have in common.

    Attributes:
        process_group: Ranks that hold the same parameters.
        parameter_dtype: Dtype of the parameters.
        reduce_dtype: Dtype of gradients on the wire.
        shard_dtype: Dtype in which this rank keeps its part of the gradients.
    """

    process_group: ProcessGroup
    parameter_dtype: torch.dtype
    reduce_dtype: torch.dtype
    shard_dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class LaidOut:
    """Parameters and where their gradients lie.

    Attributes:
        parameters: Those that are reduced, in order of use.
        frozen: Those that were frozen and are left out.
        layout: Where each gradient lies; parameters by their index.
        keys: Key of each of the layout's spaces.
    """

    parameters: tuple[Parameter, ...]
    frozen: tuple[Parameter, ...]
    layout: Layout
    keys: tuple[SpaceKey, ...]


def lay_out(
    parameters: Iterable[Parameter],
    *,
    process_group: ProcessGroup,
    process_group_of: ProcessGroupOf | None,
    reduce_dtype: torch.dtype | None,
    shard_dtype: torch.dtype | None,
    bucket_bytes: int,
) -> LaidOut:
    """Sort parameters into spaces and lay them out; see `GradientReducer` for the arguments.

    Raises:
        UsageError: a parameter cannot be reduced, or this rank is not in its group.
    """
    distinct = list({id(parameter): parameter for parameter in parameters}.values())
    trained = [parameter for parameter in distinct if parameter.requires_grad]
    _check(trained)
    keys = []
    for parameter in trained:
        group = (process_group_of and process_group_of(parameter)) or process_group
        wire = reduce_dtype or parameter.dtype
        keys.append(SpaceKey(group, parameter.dtype, wire, shard_dtype or wire))
    parts = {key: distributed.get_world_size(key.process_group) for key in dict.fromkeys(keys)}
    if any(count < 1 for count in parts.values()):
        raise UsageError("a parameter's process group does not contain this rank")
    layout = build_layout(
        [
            ParameterSpec(parameter.numel(), key, parts[key], key.reduce_dtype.itemsize)
            for parameter, key in zip(trained, keys, strict=True)
        ],
        bucket_bytes=bucket_bytes,
    )
    frozen = tuple(parameter for parameter in distinct if not parameter.requires_grad)
    return LaidOut(
        tuple(trained), frozen, layout, tuple(_key_of(space.key) for space in layout.spaces)
    )


def _key_of(key: object) -> SpaceKey:
    assert isinstance(key, SpaceKey)
    return key


def _check(parameters: list[Parameter]) -> None:
    devices = {parameter.device for parameter in parameters}
    if any(device.type != "cuda" for device in devices) or len(devices) > 1:
        named = ", ".join(sorted(map(str, devices)))
        raise UsageError(f"parameters on {named}; expected all of them on one CUDA device")
    owners: dict[int, int] = {}
    for index, parameter in enumerate(parameters):
        if not parameter.is_floating_point():
            raise UsageError(f"parameter {index} is {parameter.dtype}; expected a floating dtype")
        storage = parameter.untyped_storage().data_ptr()
        if storage in owners and storage != 0 and _overlap(parameters[owners[storage]], parameter):
            raise UsageError(
                f"parameters {owners[storage]} and {index} are two objects over the same memory; "
                "share the Parameter object itself instead"
            )
        owners[storage] = index


def _overlap(first: Parameter, second: Parameter) -> bool:
    """Whether two parameters of one storage share bytes; exact for contiguous ones."""
    begin, end = first.data_ptr(), first.data_ptr() + first.numel() * first.element_size()
    other = second.data_ptr()
    return bool(begin < other + second.numel() * second.element_size() and other < end)
