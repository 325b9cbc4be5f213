"""Optimizer state: this rank's shards, whole tensors, and shards that other world sizes can load.

Every function that says so is a collective: all ranks call it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as distributed

from streamguard.errors import UsageError
from streamguard.zero.collectives import all_gather_in_place, own_part
from streamguard.zero.reducer import GradientReducer
from streamguard.zero.shards import Fragment

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

State = dict[str, Any]
Values = Mapping[Fragment, "Tensor"]


def is_divided(fragment: Fragment, value: object) -> bool:
    """Whether a state value has an entry for every element; others belong to whole parameters."""
    return isinstance(value, torch.Tensor) and value.shape == (fragment.length,)


def fingerprint(reducer: GradientReducer) -> str:
    """A text that is equal where every fragment lies at the same place on the same part."""
    text = repr((reducer.fragments, reducer.parts, [s.parts for s in reducer.layout.spaces]))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def whole_tensors(reducer: GradientReducer, values: Values) -> list[Tensor]:
    """Gather fragments to whole tensors on the CPU, one bucket at a time; a collective.

    Args:
        reducer: Its layout and groups.
        values: Some of this rank's fragments, all of one dtype; where one rank has a parameter's,
            all its owners do.

    Returns:
        For each parameter its values in its own shape; zeros where no rank has any.
    """
    dtype = next((value.dtype for value in values.values()), torch.float32)
    wholes = [torch.zeros(p.numel(), dtype=dtype) for p in reducer.parameters]
    by_bucket: dict[int, list[Fragment]] = {}
    for fragment in values:
        by_bucket.setdefault(fragment.bucket, []).append(fragment)
    for bucket in reducer.layout.buckets:
        group = reducer.spaces[bucket.space].process_group
        memory = torch.zeros(bucket.elements, dtype=dtype, device=reducer.device)
        own = own_part(memory, group=group)
        for fragment in by_bucket.get(bucket.index, ()):
            own.narrow(0, fragment.offset, fragment.length).copy_(values[fragment])
        all_gather_in_place(memory, group=group)
        on_host = memory.cpu()
        for piece in bucket.pieces:
            source = on_host.narrow(0, piece.offset, piece.length)
            wholes[piece.parameter].narrow(0, piece.begin, piece.length).copy_(source)
    return [whole.view(p.shape) for whole, p in zip(wholes, reducer.parameters, strict=True)]


def whole_states(
    reducer: GradientReducer, states: Mapping[Fragment, State], *, group: ProcessGroup
) -> dict[int, State]:
    """Gather the states of all parameters, as torch's own optimizers have them; a collective.

    Args:
        reducer: Its layout and groups.
        states: This rank's states; may be empty.
        group: All ranks that own a part of any parameter.

    Returns:
        State of each parameter that has one, by its index in the reducer.
    """
    # name -> dtype of divided values; (parameter, name) -> value of those that are not divided
    divided: dict[str, torch.dtype] = {}
    common: dict[tuple[int, str], object] = {}
    for fragment, state in states.items():
        for name, value in state.items():
            if is_divided(fragment, value):
                divided[name] = value.dtype
            else:
                common[fragment.parameter, name] = _on_host(value)
    owned = {fragment.parameter for fragment in states}
    everywhere: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(everywhere, (divided, common, owned), group=group)
    wholes: dict[int, State] = {}
    for of_rank, _, _ in everywhere:
        divided.update(of_rank)
    for name in sorted(divided):
        values = {fragment: state[name] for fragment, state in states.items() if name in state}
        gathered = whole_tensors(reducer, values)
        for _, _, parameters in everywhere:
            for parameter in parameters:
                wholes.setdefault(parameter, {})[name] = gathered[parameter]
    for _, of_rank, _ in everywhere:
        for (parameter, name), value in of_rank.items():
            wholes.setdefault(parameter, {})[name] = value
    return wholes


def cut(
    fragment: Fragment, whole: State, *, parameter: int, elements: int, divided: Collection[str]
) -> State:
    """Return a fragment's part of one parameter's whole state.

    Args:
        fragment: A range of the parameter.
        whole: Its whole state.
        parameter: Its torch index, for the error.
        elements: Its size.
        divided: Names of values that have an entry for every element: of a parameter of shape []
            they look like the others.

    Raises:
        UsageError: a value is of a parameter of another size.
    """
    part: State = {}
    for name, value in whole.items():
        if not isinstance(value, torch.Tensor):
            part[name] = value
        elif value.dim() == 0 and name not in divided:
            part[name] = value.clone()
        else:
            check_size(f"{name} of parameter {parameter}", value, elements)
            flat = value.reshape(-1)
            part[name] = flat.narrow(0, fragment.begin, fragment.length).clone()
    return part


def check_size(what: str, value: Tensor, elements: int) -> None:
    """Refuse a value of a parameter of another size.

    Raises:
        UsageError: it is one.
    """
    if value.numel() != elements:
        raise UsageError(
            f"{what} has {value.numel()} elements in the loaded state and {elements} in this "
            "model; expected the state of the same model. Nothing was loaded"
        )


def check_masters(masters: Mapping[int, Tensor], sizes: Mapping[int, int]) -> None:
    """Refuse masters of another model.

    Raises:
        UsageError: one is missing or of another size.
    """
    for index, elements in sizes.items() if masters else ():
        if index not in masters:
            raise UsageError(
                f"the loaded state has no master of parameter {index}; expected the state of a "
                "job with the same frozen parameters. Nothing was loaded"
            )
        check_size(f"the master of parameter {index}", masters[index], elements)


def check_keys(state_dict: object, names: Sequence[str]) -> None:
    """Refuse what is no optimizer state.

    Raises:
        UsageError: it is no mapping with these keys.
    """
    found = sorted(map(str, state_dict)) if isinstance(state_dict, Mapping) else type(state_dict)
    if not isinstance(state_dict, Mapping) or any(name not in state_dict for name in names):
        raise UsageError(
            f"this is no optimizer state: found {found}, expected {', '.join(names)}. Pass what "
            "state_dict(), full_state_dict() or sharded_state_dict() returned to its own loader"
        )


def check_groups(saved: Sequence[Mapping[str, Any]], present: Sequence[Mapping[str, Any]]) -> None:
    """Refuse parameter groups of other sizes.

    Raises:
        UsageError: they differ in number or in one's size.
    """
    sizes = [[len(group["params"]) for group in groups] for groups in (saved, present)]
    if sizes[0] != sizes[1]:
        raise UsageError(
            f"the loaded state has parameter groups of {sizes[0]} parameters, this optimizer of "
            f"{sizes[1]}; give the constructor the same groups. Nothing was loaded"
        )


def check_fingerprint(saved: object, reducer: GradientReducer) -> None:
    """Refuse shards that lie elsewhere in this job.

    Raises:
        UsageError: the layout of the saved shards is another one.
    """
    if saved != fingerprint(reducer):
        raise UsageError(
            "these shards were saved with another world size, rank, model or bucket size; load "
            "full_state_dict() of that job, or use sharded_state_dict() with "
            "torch.distributed.checkpoint"
        )


def _on_host(value: object) -> object:
    return cast("Tensor", value).cpu() if isinstance(value, torch.Tensor) else value
