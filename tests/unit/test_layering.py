"""Who may import whom (design, "Parts and direction of calls"), and what imports must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "streamguard"

# A module imports streamguard modules of its own part and of lower parts only. Parts of one row do
# not import each other. The longest prefix decides which part a module belongs to.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("streamguard.errors",),
    (
        "streamguard.config",
        "streamguard.import_hooks",
        "streamguard.patching",
        "streamguard._core",
        "streamguard._hooks",
        "streamguard._collectives",
    ),
    ("streamguard.report", "streamguard.zero"),
    ("streamguard.identity",),
    (
        "streamguard.device_identity",
        "streamguard.exit_status",
        "streamguard.nvtx_marks",
        "streamguard.output_directory",
        "streamguard.hooks",
        "streamguard.declared",
        "streamguard.litmus",
        "streamguard.vgpu",
        "streamguard.finding_reader",
    ),
    ("streamguard.report_filter",),
    (
        "streamguard.session",
        "streamguard.node_report",
        "streamguard.collectives",
        "streamguard.trace",
    ),
    ("streamguard.deepspeed",),
    ("streamguard.adapters", "streamguard.program", "streamguard.trace.replay"),
    ("streamguard.api", "streamguard.autostart"),
    ("streamguard.verify",),
    ("streamguard.deepspeed.verified_subjects", "streamguard.deepspeed.verified_training"),
    ("streamguard.cli", "streamguard.pytest_plugin"),
)

# The only places that may import a library at all, in any form.
ONLY_IN = {
    "rich": ("streamguard.report.terminal",),
    "deepspeed": ("streamguard.deepspeed",),
    "pyarrow": ("streamguard.trace",),
}
WITHOUT_TORCH = (
    "streamguard.report",
    "streamguard.litmus",
    "streamguard.trace",
    "streamguard.errors",
    "streamguard.config",
    "streamguard.cli",
)


def _modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found.append((".".join(parts), path))
    return found


MODULES = _modules()


def _imports(path: Path) -> Iterator[str]:
    """All imported names, also inside functions; imports for types only do not run."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_in(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


def _layer(module: str) -> tuple[int, str] | None:
    best: tuple[int, str] | None = None
    for index, row in enumerate(LAYERS):
        for part in row:
            if _is_in(module, part) and (best is None or len(part) > len(best[1])):
                best = (index, part)
    return best


def test_every_module_has_a_layer() -> None:
    """A new part is put into the table when it is made."""
    homeless = [
        module for module, _ in MODULES if module != "streamguard" and _layer(module) is None
    ]

    assert homeless == []


@pytest.mark.parametrize(("module", "path"), MODULES, ids=[module for module, _ in MODULES])
def test_imports_point_downwards(module: str, path: Path) -> None:
    """No module imports from a part above it or beside it."""
    own = _layer(module)
    wrong = []
    for name in _imports(path):
        other = _layer(name)
        if own is None or other is None or other[1] == own[1]:
            continue
        if other[0] >= own[0]:
            wrong.append(name)

    assert wrong == []


@pytest.mark.parametrize(("module", "path"), MODULES, ids=[module for module, _ in MODULES])
def test_libraries_are_imported_only_where_they_belong(module: str, path: Path) -> None:
    """rich only in the terminal, DeepSpeed only in its adapter, torch not in what needs none."""
    wrong = []
    for name in _imports(path):
        library = name.split(".")[0]
        homes = ONLY_IN.get(library)
        if homes is not None and not any(_is_in(module, home) for home in homes):
            wrong.append(name)
        if library == "torch" and any(_is_in(module, part) for part in WITHOUT_TORCH):
            wrong.append(name)

    assert wrong == []


@pytest.mark.parametrize(
    "statement",
    [
        "import streamguard",
        "import streamguard.pytest_plugin",
        "import streamguard.autostart; streamguard.autostart.start()",
        "import streamguard.config, streamguard.errors, streamguard.import_hooks",
        "import streamguard.report.text, streamguard.report.merge, streamguard.report.output",
        "import streamguard.cli.main",
        "import streamguard; streamguard.Session, streamguard.watch, streamguard.findings",
    ],
)
def test_importing_loads_neither_torch_nor_rich_nor_an_extension(statement: str) -> None:
    """What runs in every process, and in every test run, must cost nothing."""
    program = (
        f"{statement}\n"
        "import sys\n"
        "from importlib.machinery import EXTENSION_SUFFIXES\n"
        "loaded = [n for n in ('torch', 'rich', 'deepspeed', 'yaml') if n in sys.modules]\n"
        "loaded += [n for n, m in sys.modules.items() if n.startswith('streamguard') and\n"
        "           str(getattr(m, '__file__', '')).endswith(tuple(EXTENSION_SUFFIXES))]\n"
        "print(loaded)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"


def test_the_start_up_file_is_one_line_that_is_free_when_unset() -> None:
    """Without the variables nothing of streamguard is imported."""
    line = (ROOT / "streamguard_autostart.pth").read_text()
    program = f"{line}\nimport sys; print([n for n in sys.modules if 'streamguard' in n])"
    environ = {"PATH": "/usr/bin", "STREAMGUARD": "0", "STREAMGUARD_VGPU": ""}
    result = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )

    assert line.count("\n") == 1
    assert line.startswith("import ")
    assert result.stdout.strip() == "[]"
