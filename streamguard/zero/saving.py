"""What a ZeRO optimizer saves and loads: this rank's shards, whole tensors, sharded tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from streamguard.zero.loss_scale import LossScale
from streamguard.zero.shards import Fragment
from streamguard.zero.state import (
    State,
    check_fingerprint,
    check_groups,
    check_keys,
    check_masters,
    cut,
    fingerprint,
    is_divided,
    whole_states,
    whole_tensors,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

    from streamguard.zero.parameters import FlatParameters
    from streamguard.zero.reducer import GradientReducer


class SavedOptimizer(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not followed
    """The part of `ZeroOptimizer` that saves and loads.

    Attributes:
        reducer: Reduces the gradients.
        flat: Parameters and masters.
        inner: Updates this rank's masters.
        loss_scale: The loss scale, if there is one.
    """

    reducer: GradientReducer
    flat: FlatParameters
    inner: torch.optim.Optimizer
    loss_scale: LossScale | None
    _has_made_states = False
    _norm_group: ProcessGroup
    _gradients: dict[Fragment, Tensor]

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's shards; to be loaded by the same rank of an equal job.

        Issues no work besides what `torch.save` does.
        """
        return {
            "zero_shards": fingerprint(self.reducer),
            **self.inner.state_dict(),
            "masters": [master.detach() for master in self.flat.masters.values()],
            "loss_scale": self._loss_scale_state(),
        }

    def full_state_dict(self) -> dict[str, Any]:
        """Return whole tensors on the CPU, loadable at any world size; a collective.

        `state` and `param_groups` are as torch's own optimizers have them, so that the plain
        `optimizer_class` can load them too; `masters` holds the parameters in `master_dtype`.
        """
        index_of = self._torch_indices()
        states = whole_states(self.reducer, self._states(), group=self._norm_group)
        masters = whole_tensors(self.reducer, self.flat.masters)
        return {
            "state": {index_of[p]: state for p, state in states.items()},
            "param_groups": super().state_dict()["param_groups"],
            "masters": {index_of[p]: master for p, master in enumerate(masters)},
            "loss_scale": self._loss_scale_state(),
        }

    def sharded_state_dict(self) -> dict[str, Any]:
        """Return sharded tensors for `torch.distributed.checkpoint`, by the torch index.

        `checkpoint.load` reads into them in place, at any world size; give the result to
        `load_sharded_state_dict` afterwards. A new optimizer has no state yet; what stands for it
        here is dropped at the first step, unless a state is loaded into it.
        """
        from streamguard.zero.checkpoint import sharded_tensors

        self._make_states()
        index_of = self._torch_indices()
        states = self._states()
        names = sorted({name for state in states.values() for name in state})
        result: dict[str, Any] = {
            "state": {},
            "masters": {},
            "param_groups": self._options(),
            "has_state": not self._has_made_states,
        }
        for name in names:
            whole = {f: s[name] for f, s in states.items() if is_divided(f, s[name])}
            for parameter, tensor in sharded_tensors(self.reducer, whole).items():
                result["state"].setdefault(str(index_of[parameter]), {})[name] = tensor
            for fragment, state in states.items():
                if fragment not in whole:
                    entry = result["state"].setdefault(str(index_of[fragment.parameter]), {})
                    entry[name] = state[name]
        for parameter, tensor in sharded_tensors(self.reducer, self.flat.masters).items():
            result["masters"][str(index_of[parameter])] = tensor
        result["loss_scale"] = self._loss_scale_state()
        return result

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load what `state_dict`, `full_state_dict` or the plain optimizer gave; a collective.

        Without `masters` the present parameters are taken.

        Raises:
            UsageError: it holds the shards of another layout, or the state of another model.
        """
        check_keys(state_dict, ("state", "param_groups"))
        if "zero_shards" in state_dict:
            check_fingerprint(state_dict["zero_shards"], self.reducer)
            masters = dict(zip(self.flat.masters, state_dict["masters"], strict=True))
            inner = {name: state_dict[name] for name in ("state", "param_groups")}
        else:
            masters, inner = self._cut_whole(state_dict)
        self.inner.load_state_dict(inner)
        self._has_made_states = False
        self._take_options(inner["param_groups"])
        self._finish_loading(masters, state_dict.get("loss_scale"))

    def _cut_whole(
        self, state_dict: Mapping[str, Any]
    ) -> tuple[dict[Fragment, Tensor], dict[str, Any]]:
        """Take this rank's masters and inner state out of whole tensors."""
        check_groups(state_dict["param_groups"], self.param_groups)
        torch_index = self._torch_indices()
        sizes = {torch_index[i]: p.numel() for i, p in enumerate(self.reducer.parameters)}
        whole = state_dict.get("masters", {})
        check_masters(whole, sizes)
        divided = self._divided_names()
        masters = {
            f: whole[torch_index[f.parameter]].reshape(-1)[f.begin : f.begin + f.length]
            for f in (self.flat.masters if whole else ())
        }
        states = {
            number: cut(
                fragment,
                state_dict["state"][index],
                parameter=index,
                elements=sizes[index],
                divided=divided,
            )
            for number, fragment in enumerate(self._inner_order())
            if (index := torch_index[fragment.parameter]) in state_dict["state"]
        }
        return masters, {
            "state": states,
            "param_groups": self._renumbered(state_dict["param_groups"]),
        }

    def load_sharded_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a `sharded_state_dict` that `checkpoint.load` has filled; a collective."""
        check_keys(state_dict, ("state", "param_groups", "loss_scale", "has_state"))
        index_of = self._torch_indices()
        # What was saved before the first step is what `_make_states` made there.
        self._has_made_states = not state_dict["has_state"]
        for fragment, state in self._states().items():
            loaded = state_dict["state"][str(index_of[fragment.parameter])]
            for name, value in loaded.items():
                if is_divided(fragment, state.get(name)):
                    continue  # it was loaded in place
                if isinstance(state.get(name), torch.Tensor):
                    state[name].copy_(value)
                else:
                    state[name] = value
        self._take_options(state_dict["param_groups"])
        self._finish_loading({}, state_dict["loss_scale"], is_in_place=True)

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not followed
    def _finish_loading(
        self,
        masters: Mapping[Fragment, Tensor],
        loss_scale: Mapping[str, Any] | None,
        *,
        is_in_place: bool = False,
    ) -> None:
        """Bring parameters and masters together, and the loss scale with them."""
        for fragment, value in masters.items():
            self.flat.masters[fragment].copy_(value)
        if masters or is_in_place:
            self.flat.write_own_parts()
        else:
            self.flat.adopt_parameters()
        stream = torch.cuda.current_stream(self.reducer.device)
        self.reducer.hand_over.after_step(stream)
        self.flat.gather()
        self.flat.before_read_all()
        if self.loss_scale is not None and loss_scale:
            self.loss_scale = LossScale(**loss_scale)

    def _make_states(self) -> None:
        """Let the inner optimizer create its state, without changing a parameter.

        torch.distributed.checkpoint does the same: a step with gradients of zero and a rate of
        zero, since only the optimizer itself knows what its state is.
        """
        if self.inner.state or not self.flat.masters:
            return
        rates = [group["lr"] for group in self.inner.param_groups]
        kept = [master.detach().clone() for master in self.flat.masters.values()]
        gradients = [gradient.clone() for gradient in self._gradients.values()]
        for group in self.inner.param_groups:
            group["lr"] = 0.0
        for gradient in self._gradients.values():
            gradient.zero_()
        self.inner.step()
        self._has_made_states = True
        for gradient, before in zip(self._gradients.values(), gradients, strict=True):
            gradient.copy_(before)
        for master, before in zip(self.flat.masters.values(), kept, strict=True):
            master.data.copy_(before)
        for group, rate in zip(self.inner.param_groups, rates, strict=True):
            group["lr"] = rate

    def _drop_made_states(self) -> None:
        """Let the inner optimizer begin anew if its state is only what `_make_states` made."""
        if self._has_made_states:
            self.inner.state.clear()
            self._has_made_states = False

    def _divided_names(self) -> set[str]:
        """Names of the state values that have an entry for every element."""
        self._make_states()
        states = self._states().items()
        return {name for f, state in states for name in state if is_divided(f, state[name])}

    def _states(self) -> dict[Fragment, State]:
        return {
            fragment: self.inner.state[master]
            for fragment, master in self.flat.masters.items()
            if master in self.inner.state
        }

    def _inner_order(self) -> list[Fragment]:
        """Fragments in the order in which the inner optimizer numbers them."""
        fragment_of = {id(master): fragment for fragment, master in self.flat.masters.items()}
        return [
            fragment_of[id(master)]
            for group in self.inner.param_groups
            for master in group["params"]
        ]

    def _torch_indices(self) -> dict[int, int]:
        """The number that torch gives a parameter, by its index in the reducer."""
        numbers: dict[int, int] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
        return {i: numbers[id(p)] for i, p in enumerate(self.reducer.parameters)}

    def _renumbered(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        own = self.inner.state_dict()["param_groups"]
        return [
            {**saved, "params": group["params"]} for saved, group in zip(groups, own, strict=True)
        ]

    def _options(self) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in group.items() if name != "params"}
            for group in self.param_groups
        ]

    def _take_options(self, groups: list[dict[str, Any]]) -> None:
        for group, saved in zip(self.param_groups, groups, strict=True):
            group.update({name: value for name, value in saved.items() if name != "params"})

    def _loss_scale_state(self) -> dict[str, Any]:
        return {} if self.loss_scale is None else asdict(self.loss_scale)
