"""Operators of extensions that are loaded while somebody watches: they need observers too."""

from __future__ import annotations

import functools
from importlib.machinery import ExtensionFileLoader

import torch

from streamguard import _hooks
from streamguard.patching import Method, Undo, wrap_method


def late_operator_patches() -> list[Undo]:
    """Look for new operators whenever a library was loaded; return the undo of each patch."""
    return [
        wrap_method(type(torch.ops), "load_library", _observing),
        wrap_method(ExtensionFileLoader, "create_module", _observing),
    ]


def _observing(load: Method) -> Method:
    @functools.wraps(load)
    def load_and_observe(*arguments: object, **options: object) -> object:
        before = _hooks.registration_count()
        result = load(*arguments, **options)
        # Most libraries register none, and looking at all operators takes milliseconds.
        if _hooks.registration_count() != before:
            _hooks.install_observers()
        return result

    return load_and_observe
