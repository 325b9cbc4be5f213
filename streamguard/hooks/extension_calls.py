"""Calls of well-known extensions (apex, DeepSpeed, TransformerEngine) become accesses.

Their functions are no operators of torch: without this their launches would be opaque. A call that
`extension_table` does not know is counted by name, and its launches stay opaque.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

from streamguard import _hooks
from streamguard.hooks.custom_ops import tensors_in
from streamguard.hooks.extension_table import DEEPSPEED, MULTI_TENSOR, Uses
from streamguard.import_hooks import after_import
from streamguard.patching import Method, Undo, wrap_method

Function = Callable[..., object]

# Modules whose class MultiTensorApply hands lists of tensors to a function of an extension.
_APPLIERS = (
    "apex.multi_tensor_apply.multi_tensor_apply",
    "deepspeed.ops.adam.multi_tensor_apply",
    "deepspeed.ops.lion.multi_tensor_apply",
    "transformer_engine.pytorch.optimizers.multi_tensor_apply",
)
# Extensions whose functions are also called without it.
_MODULES = ("amp_C", "transformer_engine_torch")
_BUILDERS = "deepspeed.ops.op_builder.builder"

_unknown: Counter[str] = Counter()


def unknown_extension_calls() -> dict[str, int]:
    """Return how often each function was called of which nobody knows what it touches."""
    return dict(_unknown)


def extension_patches() -> list[Undo]:
    """Follow these extensions, once they are imported; return the undo of each patch."""
    undo: list[Undo] = []

    def patch_applier(module: ModuleType) -> None:
        undo.append(wrap_method(module.MultiTensorApply, "__call__", _following_applier))

    def patch_module(module: ModuleType) -> None:
        undo.append(_replace_functions(module, MULTI_TENSOR))

    def patch_builders(module: ModuleType) -> None:
        def replace(name: str, extension: object) -> None:
            if name in DEEPSPEED and isinstance(extension, ModuleType):
                undo.append(_replace_functions(extension, DEEPSPEED[name]))

        def following(original: Method) -> Method:
            @functools.wraps(original)
            def load(self: Any, *arguments: object, **options: object) -> object:
                extension = original(self, *arguments, **options)
                replace(self.name, extension)
                return extension

            return load

        for name, extension in getattr(module.OpBuilder, "_loaded_ops", {}).items():
            replace(name, extension)
        undo.append(wrap_method(module.OpBuilder, "load", following))

    for name in _APPLIERS:
        undo.append(after_import(name, patch_applier))
    for name in _MODULES:
        undo.append(after_import(name, patch_module))
    undo.append(after_import(_BUILDERS, patch_builders))
    return undo


def _replace_functions(module: ModuleType, known: Mapping[str, Uses]) -> Undo:
    """Replace what an extension has of these functions, and its other multi-tensor functions."""
    replaced: dict[str, tuple[object, object]] = {}
    for name in [*known, *vars(module)]:
        original = getattr(module, name, None)
        is_ours = name in known or name.startswith("multi_tensor_")
        if not is_ours or name in replaced or not callable(original) or _is_followed(original):
            continue
        replacement = _declaring(original, known.get(name))
        setattr(module, name, replacement)
        replaced[name] = (original, replacement)

    def undo() -> None:
        for name, (original, replacement) in replaced.items():
            if getattr(module, name, None) is replacement:
                setattr(module, name, original)

    return undo


def _following_applier(original: Method) -> Method:
    @functools.wraps(original)
    def call(self: object, op: Function, *arguments: object, **options: object) -> object:
        if not _hooks.is_active() or _is_followed(op):
            return original(self, op, *arguments, **options)
        # The function gets what is left of the lists, without wrappers and empty tensors.
        return original(self, _declaring(op, MULTI_TENSOR.get(_name_of(op))), *arguments, **options)

    return call


def _is_followed(function: object) -> bool:
    return hasattr(function, "_streamguard_follows")


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", function))


def _declaring(function: Function, uses: Uses | None) -> Function:
    name = _name_of(function)

    @functools.wraps(function)
    def declared(*arguments: object, **options: object) -> object:
        if not _hooks.is_active():
            return function(*arguments, **options)
        touched = None if uses is None or options else _touched(uses, arguments)
        if uses is None or touched is None:
            _unknown[f"extension function {name}"] += 1
            return function(*arguments, **options)
        reads, writes = touched
        if uses.unseen:
            _unknown[f"{uses.unseen} by extension function {name}"] += 1
        if uses.is_on_host:
            torch.ops.streamguard.declare_host(name, reads, writes)
            return function(*arguments)
        _hooks.enter_declared()
        try:
            result = function(*arguments)
        finally:
            _hooks.leave_declared()
        if uses.writes_results:
            writes += tensors_in(result)
        torch.ops.streamguard.declare(name, reads, writes, None)
        return result

    declared._streamguard_follows = function  # type: ignore[attr-defined]  # read by _is_followed
    return declared


def _touched(
    uses: Uses, arguments: tuple[object, ...]
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """What a call reads and writes; None where its arguments are not those that are known."""
    tokens = uses.parameters.split()
    if len(arguments) > len(tokens):
        return None
    reads: list[torch.Tensor] = []
    writes: list[torch.Tensor] = []
    for token, argument in zip(tokens, arguments, strict=False):
        if token == ".":
            continue
        kinds, values = token, [argument]
        if token.startswith("["):
            if not isinstance(argument, (list, tuple)) or len(argument) > len(token) - 2:
                return None
            kinds, values = token[1:-1], list(argument)
        for kind, value in zip(kinds, values, strict=False):
            (writes if kind == "w" else reads).extend(tensors_in(value))
    return reads, writes
