"""Names of the program's parameters and modules, learnt when a model is called."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn
from torch.nn.modules import module as module_hooks

from streamguard import _hooks
from streamguard.patching import Undo

GRADIENT = "gradient of "
# What wrappers put around a model; its own names begin below them.
_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")

# Numbers of modules, by their names; 0 is none. Sessions share them: ops keep their number.
_numbers: dict[frozenset[str], int] = {frozenset(): 0}


class ModelNames:
    """Follows forward calls; a module that is called by no other one is a model.

    Thread safety: each thread has its own calls.
    """

    def __init__(self) -> None:
        self._models: WeakSet[nn.Module] = WeakSet()
        self._names: WeakKeyDictionary[nn.Module, frozenset[str]] = WeakKeyDictionary()
        self._tensors: set[str] = set()
        self._modules: set[str] = set()
        self._open: dict[int, list[nn.Module]] = {}  # by thread, innermost last

    def follow(self) -> Undo:
        """Learn from every call from now on; return the undo."""
        before = module_hooks.register_module_forward_pre_hook(self._enter)
        after = module_hooks.register_module_forward_hook(self._leave, always_call=True)

        def undo() -> None:
            before.remove()
            after.remove()

        return undo

    def tensors(self) -> frozenset[str]:
        """The names of all parameters, their gradients, and buffers of all models."""
        return frozenset(self._tensors)

    def modules(self) -> frozenset[str]:
        """The names of all modules."""
        return frozenset(self._modules)

    def tensors_at(self, begin: int, end: int) -> Iterator[str]:
        """Yield what lies at these bytes now: parameters, buffers, and gradients of parameters."""
        for model in list(self._models):
            for name, parameter in model.named_parameters():
                if _overlaps(parameter, begin, end):
                    yield _own_name(name)
                if parameter.grad is not None and _overlaps(parameter.grad, begin, end):
                    yield GRADIENT + _own_name(name)
            for name, buffer in model.named_buffers():
                if _overlaps(buffer, begin, end):
                    yield _own_name(name)

    def _enter(self, module: nn.Module, _: object) -> None:
        calls = self._open.setdefault(threading.get_ident(), [])
        if not calls and module not in self._names:
            self._learn(module)
        calls.append(module)
        self._tell(module)

    def _leave(self, module: nn.Module, _: object, __: object) -> None:
        calls = self._open.get(threading.get_ident(), [])
        if module not in calls:
            return  # the call began before we followed
        while calls.pop() is not module:
            pass
        self._tell(calls[-1] if calls else None)

    def _tell(self, module: nn.Module | None) -> None:
        names = frozenset() if module is None else self._names.get(module, frozenset())
        _hooks.enter_module(_numbers.setdefault(names, len(_numbers)))

    def _learn(self, model: nn.Module) -> None:
        self._models.add(model)
        for name, module in model.named_modules(remove_duplicate=False):
            own = _own_name(f"{name}.").rstrip(".")
            self._names[module] = self._names.get(module, frozenset()) | {own}
            self._modules.add(own)
        parameters = {_own_name(name) for name, _ in model.named_parameters()}
        self._tensors.update(parameters, (GRADIENT + name for name in parameters))
        self._tensors.update(_own_name(name) for name, _ in model.named_buffers())


def names_of_module(number: int) -> frozenset[str]:
    """The names of the module that ops with this number were issued in."""
    return list(_numbers)[number]


def _own_name(name: str) -> str:
    while name.startswith(_WRAPPERS):
        name = name.partition(".")[2]
    return name


def _overlaps(tensor: torch.Tensor, begin: int, end: int) -> bool:
    local = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
    if local.device.type not in ("cuda", "cpu") or not local.numel():
        return False
    address = int(local.data_ptr())
    return address < end and begin < address + local.numel() * local.element_size()
