"""Names of parameters, by identity, from the modules that DeepSpeed engines train."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# A parameter's hash is its identity, so a weak dictionary forgets it together with the model.
_names: weakref.WeakKeyDictionary[torch.Tensor, str] = weakref.WeakKeyDictionary()


def remember(module: torch.nn.Module) -> None:
    """Learn the qualified names of all parameters of `module`, such as `layers.3.weight`."""
    for name, parameter in module.named_parameters():
        _names[parameter] = name


def name_of(parameter: torch.Tensor) -> str:
    """Return the qualified name, or the shape where no engine has shown the parameter yet."""
    return _names.get(parameter, f"parameter of shape {list(parameter.shape)}")
