"""Run a callback right after a module was imported, without importing it.

The start-up file must not load torch, yet has work to do as soon as the program loads it. A finder
at the front of `sys.meta_path` lets the other finders locate the module, runs it under its own
loader, and then calls back. The module keeps its own loader and spec: nothing of the detour stays
visible.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Callback = Callable[[ModuleType], None]


def after_import(module_name: str, callback: Callback) -> Callable[[], None]:
    """Call `callback(module)` once, when `module_name` has been imported completely.

    An already imported module is handed over at once. Callbacks of one module run in the order of
    registration, before the import statement returns; what they raise, the import statement raises.

    Args:
        module_name: Absolute dotted name.
        callback: Receives the module.

    Returns:
        Undo: forgets the callback if it has not run yet.
    """
    module = sys.modules.get(module_name)
    if module is not None and not _is_initializing(module):
        callback(module)
        return _nothing_to_undo
    finder = _installed_finder()
    return finder.register(module_name, callback)


def _nothing_to_undo() -> None:
    """The callback has run already."""


def _is_initializing(module: ModuleType) -> bool:
    """Whether the module's code is still running, as importlib marks it."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _installed_finder() -> _CallbackFinder:
    for finder in sys.meta_path:
        if isinstance(finder, _CallbackFinder):
            return finder
    finder = _CallbackFinder()
    sys.meta_path.insert(0, finder)
    return finder


class _CallbackFinder(MetaPathFinder):
    """Locates nothing itself; wraps the loader of modules that somebody waits for."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}

    def register(self, module_name: str, callback: Callback) -> Callable[[], None]:
        self._callbacks.setdefault(module_name, []).append(callback)

        def undo() -> None:
            waiting = self._callbacks.get(module_name, [])
            if callback in waiting:
                waiting.remove(callback)
            if not waiting:
                self._callbacks.pop(module_name, None)
            self._leave_if_idle()

        return undo

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._callbacks:
            return None
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is None:
                continue
            if spec.loader is not None:
                spec.loader = _NotifyingLoader(spec.loader, self)
            return spec
        return None

    def notify(self, module: ModuleType) -> None:
        callbacks = self._callbacks.pop(module.__name__, [])
        self._leave_if_idle()
        for callback in callbacks:
            callback(module)

    def _leave_if_idle(self) -> None:
        if not self._callbacks and self in sys.meta_path:
            sys.meta_path.remove(self)


class _NotifyingLoader(Loader):
    """Runs the real loader and then the callbacks; steps aside before the module's code runs."""

    def __init__(self, loader: Loader, finder: _CallbackFinder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module and everybody who inspects it must see the loader that found it, e.g. for
        # inspect.getsource and importlib.resources.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.notify(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)
