"""Operators whose kernels are Python functions (`torch.library`): what they launch by themselves.

Operators of torch that such a kernel calls are observed one by one. What it launches besides, from
an extension say, would be opaque, but the operator's own schema says what it touches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import torch
from torch.library import Library

from streamguard import _hooks
from streamguard.patching import Method, Undo, wrap_method

_DEVICE_KEYS = ("CUDA", "CompositeExplicitAutograd")


def custom_op_patches() -> list[Undo]:
    """Follow every Python kernel that is registered from now on; return the undo."""
    return [wrap_method(Library, "impl", _following)]


def _following(original: Method) -> Method:
    @functools.wraps(original)
    def impl(
        self: Library, op_name: object, fn: object, dispatch_key: str = "", **options: object
    ) -> object:
        key = dispatch_key or self.dispatch_key
        # Torch's own operators are observed as they are; a kernel with a keyset redispatches.
        is_own = key in _DEVICE_KEYS and self.ns != "aten" and not options.get("with_keyset")
        if is_own and callable(fn) and not isinstance(fn, torch._C.DispatchKey):
            fn = _declaring(fn, f"{self.ns}::{_bare_name(op_name)}")
        return original(self, op_name, fn, dispatch_key, **options)

    return impl


def _bare_name(op_name: object) -> str:
    name = op_name if isinstance(op_name, str) else str(getattr(op_name, "_name", op_name))
    return name.split("::")[-1]


def _declaring(kernel: Callable[..., object], name: str) -> Callable[..., object]:
    @functools.wraps(kernel)
    def declared(*arguments: object, **options: object) -> object:
        if not _hooks.is_active():
            return kernel(*arguments, **options)
        before = _hooks.enter_declared()
        try:
            result = kernel(*arguments, **options)
        finally:
            after = _hooks.leave_declared()
        if after != before:
            _declare(name, arguments, options, result)
        return result

    return declared


def _declare(
    name: str, arguments: tuple[object, ...], options: dict[str, object], result: object
) -> None:
    operator, _, overload = name.partition(".")
    schema = torch._C._get_schema(operator, overload)
    reads: list[torch.Tensor] = []
    writes = list(tensors_in(result))
    for position, parameter in enumerate(schema.arguments):
        given = arguments[position] if position < len(arguments) else options.get(parameter.name)
        is_written = parameter.alias_info is not None and parameter.alias_info.is_write
        (writes if is_written else reads).extend(tensors_in(given))
    torch.ops.streamguard.declare(operator, reads, writes, None)


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors of a value, also those in lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
