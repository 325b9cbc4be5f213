"""What kernels of one's own touch: the detector cannot see into a launch that is no operator."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from streamguard.errors import UsageError

if TYPE_CHECKING:
    import torch

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class access:  # noqa: N801  (used like a function: a context manager, and a decorator)
    """Say which tensors a launch reads and writes.

    As a context manager around the launch, with tensors; the op counts as issued when the block
    ends, so the block should hold the launch alone::

        with streamguard.access(reads=[x], writes=[out]):
            my_extension.scale(x, out)

    As a decorator of the function that launches, with the names of its parameters::

        @streamguard.access(reads=["x"], writes=["out"])
        def scale(x, out): ...

    While nobody watches nothing happens. Bytes that are both read and written belong to
    `writes`.

    Args:
        reads: Tensors, or names of parameters whose values are tensors or sequences of tensors.
        writes: The same for what is written.
        stream: Stream of the launch; by default the current one of the tensors' device.
        name: What the report calls the op; by default the function's name, or "declared kernel".
    """

    def __init__(
        self,
        *,
        reads: Sequence[torch.Tensor | str] = (),
        writes: Sequence[torch.Tensor | str] = (),
        stream: torch.cuda.Stream | None = None,
        name: str | None = None,
    ) -> None:
        self._reads = tuple(reads)
        self._writes = tuple(writes)
        self._stream = stream
        self._name = name
        self._is_watched: list[bool] = []

    def __enter__(self) -> None:
        named = [given for given in (*self._reads, *self._writes) if isinstance(given, str)]
        if named:
            raise UsageError(
                f"streamguard.access got the name {named[0]!r} in a with block; names stand for "
                "parameters of a decorated function, a with block needs the tensors"
            )
        # Watching that starts or ends inside the block must not unbalance the count.
        self._is_watched.append(_is_watched())
        if self._is_watched[-1]:
            _hooks().enter_declared()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_watched.pop():
            return
        _hooks().leave_declared()
        if kind is None:
            import torch

            name = self._name or "declared kernel"
            handle = None if self._stream is None else self._stream.cuda_stream
            torch.ops.streamguard.declare(name, list(self._reads), list(self._writes), handle)

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Declare every call of `function`, by the values of the named parameters."""
        signature = inspect.signature(function)
        for given in (*self._reads, *self._writes):
            if not isinstance(given, str) or given not in signature.parameters:
                raise UsageError(
                    f"streamguard.access got {given!r} for {function.__name__}; a decorator needs "
                    f"names of its parameters: {', '.join(signature.parameters)}"
                )

        @functools.wraps(function)
        def launch(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
            if not _is_watched():
                return function(*arguments, **options)
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            with access(
                reads=_tensors(bound.arguments, self._reads),
                writes=_tensors(bound.arguments, self._writes),
                stream=self._stream,
                name=self._name or function.__name__,
            ):
                return function(*arguments, **options)

        return launch


def _tensors(values: dict[str, object], names: Sequence[object]) -> list[torch.Tensor]:
    import torch

    found: list[torch.Tensor] = []
    for name in names:
        value = values[str(name)]
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, torch.Tensor):
                found.append(item)
            elif item is not None:
                raise UsageError(f"streamguard.access: parameter {name!r} is no tensor: {item!r}")
    return found


def _is_watched() -> bool:
    return "streamguard._hooks" in sys.modules and bool(_hooks().is_active())


def _hooks() -> ModuleType:
    from streamguard import _hooks as hooks

    return hooks
