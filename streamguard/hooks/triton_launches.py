"""Triton's launches: they go to the driver, where nothing else of ours hears them.

What a kernel touches is read from its intermediate code, as `torch.compile` does to learn what a
kernel of the program's own mutates; kernels that inductor made say it by the names of their
parameters. Where neither is possible the launch is counted, as opaque.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from streamguard import _hooks
from streamguard.import_hooks import after_import
from streamguard.patching import Method, Undo, wrap_method

# Prefixes that inductor gives to parameters its kernels write; all others it only reads, unless it
# lists them as mutated.
_INDUCTOR_WRITES = ("out_ptr", "in_out_ptr", "ws_ptr")

_opaque: Counter[str] = Counter()
_declared = 0


@dataclass(frozen=True, slots=True)
class _Uses:
    """Names of the parameters whose memory a kernel reads, and of those whose it writes."""

    reads: frozenset[str]
    writes: frozenset[str]


_uses: weakref.WeakKeyDictionary[object, _Uses | None] = weakref.WeakKeyDictionary()


def opaque_launches() -> dict[str, int]:
    """Return how often each kernel was launched of which nobody knows what it touches."""
    return dict(_opaque)


def declared_launches() -> int:
    """Return how many launches became accesses."""
    return _declared


def triton_patches() -> list[Undo]:
    """Patch what launches, once it is imported; return the undo of each.

    The second one launches what inductor made.
    """
    undo: list[Undo] = []

    def patch_jit(module: ModuleType) -> None:
        undo.append(wrap_method(module.JITFunction, "run", _following_jit))

    def patch_inductor(module: ModuleType) -> None:
        undo.append(wrap_method(module.CachingAutotuner, "run", _following_inductor))

    undo.append(after_import("triton.runtime.jit", patch_jit))
    undo.append(after_import("torch._inductor.runtime.triton_heuristics", patch_inductor))
    return undo


def _following_jit(original: Method) -> Method:
    @functools.wraps(original)
    def run(self: Any, *arguments: object, **options: object) -> object:
        with _muted():
            compiled = original(self, *arguments, **options)
        if compiled is None or options.get("warmup") or not _hooks.is_active():
            return compiled
        named = {name: value for name, value in options.items() if name in self.arg_names}
        bound = self.signature.bind(*arguments, **named)
        bound.apply_defaults()
        _note(self.__name__, bound.arguments, _uses_of(self, compiled, bound.arguments), None)
        return compiled

    return run


def _following_inductor(original: Method) -> Method:
    @functools.wraps(original)
    def run(self: Any, *arguments: object, stream: int, **options: object) -> object:
        with _muted():
            result = original(self, *arguments, stream=stream, **options)
        if _hooks.is_active() and not options.get("benchmark_run"):
            given = dict(zip(self.fn.arg_names, arguments, strict=False))
            written = {
                name
                for name in given
                if name.startswith(_INDUCTOR_WRITES) or name in self.mutated_arg_names
            }
            uses = _Uses(frozenset(given) - written, frozenset(written))
            _note(self.fn.__name__, given, uses, stream)
        return result

    return run


@contextmanager
def _muted() -> Iterator[None]:
    """The launch is told of here: where the launcher uses the runtime it must not count twice."""
    _hooks.mute_launches()
    try:
        yield
    finally:
        _hooks.unmute_launches()


def _note(
    kernel: str, arguments: Mapping[str, object], uses: _Uses | None, stream: int | None
) -> None:
    global _declared
    if uses is None:
        _opaque[kernel] += 1
        return
    _declared += 1
    writes = [value for name, value in _tensors(arguments) if name in uses.writes]
    reads = [value for name, value in _tensors(arguments) if name in uses.reads - uses.writes]
    torch.ops.streamguard.declare(kernel, reads, writes, stream)


def _tensors(arguments: Mapping[str, object]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            yield name, value


def _uses_of(kernel: object, compiled: object, arguments: Mapping[str, object]) -> _Uses | None:
    """The uses of one specialisation of a kernel; looked up once for each.

    None where they cannot be told: the code is beyond the analysis, or an argument carries memory
    in a form that this module does not take apart (descriptors, tuples of tensors).
    """
    if compiled not in _uses:
        _uses[compiled] = _analysed(kernel, arguments)
    return _uses[compiled]


def _analysed(kernel: object, arguments: Mapping[str, object]) -> _Uses | None:
    plain = (torch.Tensor, bool, int, float, str, torch.dtype, type(None))
    is_constant = {parameter.name: parameter.is_constexpr for parameter in kernel.params}  # type: ignore[attr-defined]  # Triton has no types
    if any(
        not is_constant[name] and not isinstance(value, plain) for name, value in arguments.items()
    ):
        return None
    try:
        from torch._higher_order_ops import triton_kernel_wrap as analysis

        module, names = analysis.generate_ttir(kernel, dict(arguments), {})
        functions = analysis.ttir_to_functions(module)
        # Both remember what they found in an earlier module.
        analysis.analyze_kernel_access.reset()
        analysis.get_tma_stores.reset()
        of_tensors = frozenset(
            position
            for position, name in enumerate(names)
            if isinstance(arguments.get(name), torch.Tensor)
        )
        found = analysis.analyze_kernel_access(
            functions, next(iter(functions)), len(names), tuple(names), of_tensors
        ).read_writes
    except Exception:  # whatever it stumbles over, the launch itself went well
        return None
    return _Uses(
        frozenset(dependency.name for dependency in found.reads),
        frozenset(dependency.name for dependency in found.writes),
    )
