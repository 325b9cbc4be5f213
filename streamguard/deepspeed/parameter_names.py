"""Names of parameters, by identity, from the modules that DeepSpeed engines train."""

from __future__ import annotations

import torch
from torch.utils.weak import WeakIdKeyDictionary

# By identity, not by value as `==` compares tensors; weak, so that a model's names end with it.
_names = WeakIdKeyDictionary()


def remember(module: torch.nn.Module) -> None:
    """Learn the qualified names of all parameters of `module`, such as `layers.3.weight`."""
    for name, parameter in module.named_parameters():
        _names[parameter] = name


def name_of(parameter: torch.Tensor) -> str | None:
    """Return the qualified name, or None where no engine has shown the parameter yet."""
    name = _names.get(parameter)
    return str(name) if name else None
