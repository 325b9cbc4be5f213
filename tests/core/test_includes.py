"""The engine depends on the standard library and on itself only."""

from __future__ import annotations

import re
from pathlib import Path

_CORE = Path(__file__).parents[2] / "csrc" / "core"
_INCLUDE = re.compile(r'^#include\s+([<"][^>"]+[>"])', re.MULTILINE)


def test_core_includes_the_standard_library_and_itself_only() -> None:
    """No Python, torch or CUDA header: `<name>` without a dot, `"core/..."`, or madvise's own."""
    files = sorted([*_CORE.glob("*.h"), *_CORE.glob("*.cc")])
    foreign = [
        f"{path.name}: {included}"
        for path in files
        for included in _INCLUDE.findall(path.read_text())
        if not re.fullmatch(r'<[a-z_]+>|<sys/mman\.h>|"core/[a-z_]+\.h"', included)
    ]

    assert len(files) > 20
    assert foreign == []
