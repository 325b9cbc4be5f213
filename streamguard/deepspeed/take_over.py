"""Wraps DeepSpeed's ZeRO-1/2 optimizer when the program imports DeepSpeed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType

from streamguard.deepspeed.supported import Support
from streamguard.import_hooks import after_import
from streamguard.patching import Method, Undo, wrap_method

Wrapper = Callable[[Method], Method]


def take_over(
    support: Support,
    wrappers: Mapping[str, Wrapper],
    *,
    begin: Callable[[object], None],
    is_taken_over: Callable[[object], bool],
) -> Undo:
    """Wrap the optimizers of every engine that is made from now on.

    Args:
        support: Refuses what cannot be taken over, before it trains.
        wrappers: For methods of `DeepSpeedZeroOptimizer`, other than `__init__`.
        begin: Called with each new optimizer that is supported.
        is_taken_over: Whether `begin` was called with an optimizer.

    Returns:
        Undo: restores every wrapped method and forgets the waiting hooks.
    """
    undo: list[Undo] = []

    def beginning(original: Method) -> Method:
        def wrapper(self: object, *arguments: object, **options: object) -> None:
            original(self, *arguments, **options)
            support.check_optimizer(self)
            begin(self)

        return wrapper

    def checking(original: Method) -> Method:
        def wrapper(self: object, *arguments: object, **options: object) -> None:
            original(self, *arguments, **options)
            optimizer = getattr(self, "optimizer", None)
            support.check_engine(self, is_taken_over=is_taken_over(optimizer))

        return wrapper

    def patch_optimizer(module: ModuleType) -> None:
        import deepspeed

        owner = module.DeepSpeedZeroOptimizer
        support.check_release(deepspeed.__version__, owner)
        for name, wrapper in {"__init__": beginning, **wrappers}.items():
            undo.append(wrap_method(owner, name, wrapper))

    def patch_engine(module: ModuleType) -> None:
        undo.append(wrap_method(module.DeepSpeedEngine, "__init__", checking))

    undo.append(after_import("deepspeed.runtime.zero.stage_1_and_2", patch_optimizer))
    undo.append(after_import("deepspeed.runtime.engine", patch_engine))

    def undo_all() -> None:
        while undo:
            undo.pop()()

    return undo_all
