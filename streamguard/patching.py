"""Replacing a method and putting the very same object back."""

from __future__ import annotations

from collections.abc import Callable

Method = Callable[..., object]
Undo = Callable[[], None]


def wrap_method(owner: type, name: str, wrapper: Callable[[Method], Method]) -> Undo:
    """Replace `owner.name` by `wrapper(original)`.

    Args:
        owner: Class that defines the method itself.
        name: Method name; a class without it is left as it is, since releases differ.
        wrapper: Receives the original function and returns its replacement.

    Returns:
        Undo: restores the very object that was replaced, unless somebody replaced ours since.
    """
    original = vars(owner).get(name)
    if original is None:
        return _nothing_to_undo
    replacement = wrapper(original)
    replacement.__name__ = getattr(original, "__name__", name)
    replacement.__doc__ = original.__doc__
    setattr(owner, name, replacement)

    def undo() -> None:
        if vars(owner).get(name) is replacement:
            setattr(owner, name, original)

    return undo


def _nothing_to_undo() -> None:
    """Nothing was replaced."""
