"""Tests of `streamguard.import_hooks`."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from streamguard.import_hooks import after_import


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a package `watched` that imports its own submodule."""
    root = tmp_path / "watched"
    root.mkdir()
    (root / "__init__.py").write_text("from watched import part\nready = True\n")
    (root / "part.py").write_text("import watched\nvalue = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield root
    for name in ("watched", "watched.part"):
        sys.modules.pop(name, None)


def test_the_callback_sees_the_complete_module(package: Path) -> None:
    """It runs once, after the module's code and before the import statement returns."""
    seen: list[tuple[ModuleType, bool]] = []
    after_import("watched", lambda module: seen.append((module, module.ready)))

    module = importlib.import_module("watched")
    importlib.import_module("watched")

    assert seen == [(module, True)]


def test_an_imported_module_is_handed_over_at_once() -> None:
    """No import is needed for a module that is there."""
    seen: list[ModuleType] = []
    after_import("sys", seen.append)

    assert seen == [sys]


def test_undo_forgets_the_callback_and_leaves_no_finder(package: Path) -> None:
    """After undo the import system is as it was."""
    finders = list(sys.meta_path)
    seen: list[ModuleType] = []
    undo = after_import("watched", seen.append)
    undo()

    importlib.import_module("watched")

    assert seen == []
    assert sys.meta_path == finders


def test_callbacks_of_a_module_and_its_submodule_both_run(package: Path) -> None:
    """The submodule is complete first, since the package imports it."""
    order: list[str] = []
    after_import("watched", lambda module: order.append(module.__name__))
    after_import("watched.part", lambda module: order.append(module.__name__))

    importlib.import_module("watched")

    assert order == ["watched.part", "watched"]


def test_the_module_keeps_its_own_loader(package: Path) -> None:
    """Who inspects the module finds the loader that Python gave it."""
    after_import("watched", lambda _: None)

    module = importlib.import_module("watched")

    assert type(module.__loader__) is SourceFileLoader
    assert type(module.__spec__ and module.__spec__.loader) is SourceFileLoader
    assert "ready = True" in inspect.getsource(module)


def test_a_failing_import_keeps_its_error_and_its_callback(package: Path) -> None:
    """The callback waits for an import that succeeds."""
    (package / "part.py").write_text("raise RuntimeError('half-way')\n")
    seen: list[ModuleType] = []
    undo = after_import("watched", seen.append)

    with pytest.raises(RuntimeError, match="half-way"):
        importlib.import_module("watched")

    assert seen == []
    undo()


def test_a_callback_added_while_the_module_runs_waits_for_its_end(package: Path) -> None:
    """A module whose code is still running is not complete."""
    (package / "part.py").write_text(
        "import watched\n"
        "from streamguard.import_hooks import after_import\n"
        "after_import('watched', lambda module: module.log.append(module.ready))\n"
    )
    (package / "__init__.py").write_text("log = []\nfrom watched import part\nready = True\n")
    undo = after_import("watched", lambda _: None)

    module = importlib.import_module("watched")

    assert module.log == [True]
    undo()
