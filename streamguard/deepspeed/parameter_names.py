"""Names of parameters, by identity, from the modules that DeepSpeed engines train."""

from __future__ import annotations

import weakref

import torch
from torch.utils.weak import WeakIdKeyDictionary

# By identity, not by value as `==` compares tensors; weak, so that a model's names end with it.
_names = WeakIdKeyDictionary()
# The same by number, for a look-up that is made for every gradient: the entry counts while its
# reference still leads to the parameter.
_quick: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}


def remember(module: torch.nn.Module) -> None:
    """Learn the qualified names of all parameters of `module`, such as `layers.3.weight`."""
    for name, parameter in module.named_parameters():
        _names[parameter] = name
        _quick.pop(id(parameter), None)


def name_of(parameter: torch.Tensor) -> str:
    """Return the qualified name, or the shape where no engine has shown the parameter yet."""
    quick = _quick.get(id(parameter))
    if quick is not None and quick[0]() is parameter:
        return quick[1]
    name = _names.get(parameter)
    if not name:
        return f"parameter of shape {list(parameter.shape)}"
    _quick[id(parameter)] = (weakref.ref(parameter), str(name))
    return str(name)
