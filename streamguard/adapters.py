"""Switches on what streamguard knows about libraries, once a program imports them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from streamguard.import_hooks import after_import


def register_adapters() -> Callable[[], None]:
    """Wait for DeepSpeed; a program without it pays nothing.

    Returns:
        Undo: forgets the waiting hook and what it installed.
    """
    undo: list[Callable[[], None]] = []

    def adapt(_: ModuleType) -> None:
        from streamguard.deepspeed.adapter import register_import_hooks

        undo.append(register_import_hooks())

    undo.append(after_import("deepspeed", adapt))

    def undo_all() -> None:
        while undo:
            undo.pop()()

    return undo_all
