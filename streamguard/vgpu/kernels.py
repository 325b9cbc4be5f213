"""Host twins of one's own kernels: what the virtual GPU runs in the place of a kernel."""

from __future__ import annotations

import ctypes
import inspect
import sys
import traceback
from collections.abc import Callable
from typing import TypeVar, get_type_hints

from streamguard.errors import UsageError
from streamguard.vgpu import load

Twin = TypeVar("Twin", bound=Callable[..., object])

_LAUNCH_FAILURE = 719  # cudaErrorLaunchFailure
_Call = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_uint),
    ctypes.POINTER(ctypes.c_void_p),
)
_calls: dict[str, object] = {}  # what the runtime holds pointers to


def kernel(symbol: str, function: Twin | None = None) -> Callable[[Twin], Twin] | Twin:
    """Give the kernel `symbol` a function that computes on the host what the kernel would.

    It runs when the launch's turn comes in its stream, under every schedule, also in each replay of
    a graph. Without a function this is a decorator:

        @streamguard.vgpu.kernel("scale")
        def scale(grid, block, x: ctypes.c_void_p, factor: ctypes.c_float, n: ctypes.c_int):
            values = (ctypes.c_float * n).from_address(x)
            for i in range(n):
                values[i] *= factor

    On a real GPU it does nothing. A later twin of the same symbol replaces the earlier one.

    Args:
        symbol: The kernel's name as the compiler registers it (`_Z5scalePffi`), or its C++ name
            without parameters (`scale`, `space::scale<float>`); for Triton and NVRTC the name of
            the function in the module.
        function: Called as `function(grid, block, *arguments)`. `grid` and `block` are tuples
            (x, y, z). Each further parameter is one of the kernel's, in order, and is annotated
            with its ctypes type, which says how many bytes the launch copies. Pointers are
            `ctypes.c_void_p` and arrive as an address (None when null): device memory lies in the
            host's. Other simple types arrive as Python numbers, structures as ctypes structures.

    Raises:
        UsageError: A parameter has no ctypes type.
    """
    if function is None:
        return lambda twin: kernel(symbol, twin)  # type: ignore[return-value] # with a twin
    types = _argument_types(symbol, function)
    if load.is_loaded():
        _register(symbol, function, types)
    return function


def _argument_types(symbol: str, function: Callable[..., object]) -> list[type]:
    hints = get_type_hints(function)
    names = list(inspect.signature(function).parameters)[2:]
    types = [hints.get(name) for name in names]
    for name, found in zip(names, types, strict=True):
        if not (isinstance(found, type) and _is_ctypes(found)):
            raise UsageError(
                f"the twin of kernel {symbol!r} does not say how large its parameter {name!r} is: "
                f"annotate it with a ctypes type, such as ctypes.c_void_p or ctypes.c_int"
            )
    return [found for found in types if found is not None]


def _is_ctypes(found: type) -> bool:
    try:
        ctypes.sizeof(found)
    except TypeError:
        return False
    return True


def _register(symbol: str, function: Callable[..., object], types: list[type]) -> None:
    runtime = ctypes.CDLL(None)

    def call(_context: object, grid: object, block: object, arguments: object) -> None:
        try:
            function(
                tuple(grid[axis] for axis in range(3)),  # type: ignore[index] # pointers
                tuple(block[axis] for axis in range(3)),  # type: ignore[index]
                *(_value_at(arguments[at], types[at]) for at in range(len(types))),  # type: ignore[index]
            )
        except BaseException:
            # Nobody above can catch it: this is the device, and so the device fails.
            sys.stderr.write(f"streamguard: the twin of kernel {symbol} failed:\n")
            traceback.print_exc()
            runtime.streamguard_vgpu_set_sticky_error(_LAUNCH_FAILURE)

    sizes = [ctypes.sizeof(found) for found in types]
    held = _Call(call)
    runtime.streamguard_vgpu_set_kernel_twin(
        symbol.encode(), held, None, (ctypes.c_size_t * len(sizes))(*sizes), len(sizes)
    )
    _calls[symbol] = held


def _value_at(address: int, found: type) -> object:
    held = found.from_address(address)  # type: ignore[attr-defined] # a ctypes type
    return held.value if issubclass(found, ctypes._SimpleCData) else held
