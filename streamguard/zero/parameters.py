"""The parameters as flat memory in the gradients' layout, updated in parts and gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
import torch.distributed as distributed

from streamguard.zero.collectives import all_gather_in_place, own_part
from streamguard.zero.layout import Bucket
from streamguard.zero.reducer import GradientReducer
from streamguard.zero.shards import Fragment

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.utils.hooks import RemovableHandle


class FlatParameters:
    """Moves all parameters into one flat tensor per space; `param.data` becomes a view of it.

    Rank 0 of each process group gives the values. Gradient and parameter of one element have the
    same owner, so that one all-gather per bucket moves (N-1)/N of its bytes.

    Args:
        reducer: Its parameters, layout and order between streams are used.
        master_dtype: Dtype in which the owner updates its part; for parameters of this dtype the
            part itself is updated.
    """

    def __init__(self, reducer: GradientReducer, *, master_dtype: torch.dtype) -> None:
        self._reducer = reducer
        self._flat = [
            torch.zeros(space.elements, dtype=key.parameter_dtype, device=reducer.device)
            for space, key in zip(reducer.layout.spaces, reducer.spaces, strict=True)
        ]
        self._buckets_of: list[tuple[int, ...]] = []
        for index, parameter in enumerate(reducer.parameters):
            pieces = reducer.layout.pieces_of(index)
            bucket, first = pieces[0]
            flat = self._flat[bucket.space].narrow(
                0, bucket.begin + first.offset, parameter.numel()
            )
            flat.copy_(parameter.detach().reshape(-1))
            parameter.data = flat.view(parameter.shape)
            self._buckets_of.append(tuple(bucket.index for bucket, _ in pieces))
        for flat, key in zip(self._flat, reducer.spaces, strict=True):
            source = distributed.get_global_rank(key.process_group, 0)
            distributed.broadcast(flat, source, group=key.process_group)
            flat.record_stream(reducer.communication_stream)
        self._waiting: list[RemovableHandle] = []
        # fragment -> the values that the optimizer updates
        self.masters: dict[Fragment, Tensor] = {}
        self._copied: list[tuple[Tensor, Tensor]] = []  # own part of the parameters, its master
        for fragment in reducer.fragments:
            own = self._own(fragment)
            master = own.to(master_dtype)
            self.masters[fragment] = master
            if master is not own:
                self._copied.append((own, master))

    def write_own_parts(self) -> None:
        """Round the masters into this rank's part of the parameters, on the current stream."""
        if self._copied:
            own, masters = zip(*self._copied, strict=True)
            torch._foreach_copy_(list(own), list(masters))

    def gather(self) -> None:
        """Gather all ranks' parts on the communication stream, after `HandOver.after_step`.

        Whoever reads parameters afterwards calls `before_read`.
        """
        reducer = self._reducer
        with torch.cuda.stream(reducer.communication_stream):
            # In order of use: the first layer's bucket, which is reduced last, is needed first.
            for bucket in reversed(reducer.layout.buckets):
                group = reducer.spaces[bucket.space].process_group
                all_gather_in_place(self._bucket(bucket), group=group)
                reducer.hand_over.after_gather(bucket.index)

    def before_read_all(self) -> None:
        """Let the current stream read all parameters."""
        self.before_read(range(len(self._reducer.parameters)))

    def before_read(self, parameters: Iterable[int]) -> None:
        """Let the current stream read these parameters, after their latest gather."""
        stream = torch.cuda.current_stream(self._reducer.device)
        for parameter in parameters:
            self._reducer.hand_over.before_read(self._buckets_of[parameter], stream)

    def adopt_parameters(self) -> None:
        """Take the parameters' present values as the masters', after they were loaded."""
        self.before_read_all()
        for own, master in self._copied:
            master.copy_(own)

    def wait_in_forward(self, module: Module) -> None:
        """Let every submodule wait for its own parameters right before its forward."""
        index_of = {id(p): index for index, p in enumerate(self._reducer.parameters)}
        for part in module.modules():
            indices = tuple(
                index_of[id(parameter)]
                for parameter in part.parameters(recurse=False)
                if id(parameter) in index_of
            )
            if indices:
                self._waiting.append(part.register_forward_pre_hook(self._waiter(indices)))

    def stop_waiting(self) -> None:
        """Let the current stream read all parameters, and submodules wait for nothing more."""
        self.before_read_all()
        while self._waiting:
            self._waiting.pop().remove()

    def _waiter(self, indices: tuple[int, ...]) -> Callable[..., None]:
        return lambda *_: self.before_read(indices)

    def _bucket(self, bucket: Bucket) -> Tensor:
        return self._flat[bucket.space].narrow(0, bucket.begin, bucket.elements)

    def _own(self, fragment: Fragment) -> Tensor:
        """This rank's elements of the flat parameters, as a view."""
        bucket = self._reducer.layout.buckets[fragment.bucket]
        group = self._reducer.spaces[bucket.space].process_group
        part = own_part(self._bucket(bucket), group=group)
        return part.narrow(0, fragment.offset, fragment.length)
