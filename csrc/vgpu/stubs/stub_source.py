"""Writes the C source and the version script of one replacement library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_LOGGING = """\
extern void streamguard_vgpu_log_unsupported(const char*);
"""


def silent_stubs(names: Iterable[str]) -> str:
    """Functions that succeed and do nothing.

    The libraries compute values, which the virtual GPU does elsewhere; their status is all a
    caller looks at.
    """
    return "".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(names))


def refusing_stubs(names: Iterable[str], *, status: int) -> str:
    """Functions that answer `status` and name themselves once in log and on stderr."""
    bodies = (
        f'int {name}(void) {{ streamguard_vgpu_log_unsupported("{name}"); return {status}; }}\n'
        for name in sorted(names)
    )
    return _LOGGING + "".join(bodies)


def version_script(symbols: Mapping[str, Iterable[str]], *, default_node: str) -> str:
    """Gives each symbol the version its users ask for.

    Args:
        symbols: Version node -> names; "" for symbols without a version.
        default_node: Node of everything else that is exported; "" for none.
    """
    lines = []
    for node in sorted(node for node in symbols if node and node != default_node):
        names = " ".join(f"{name};" for name in sorted(symbols[node]))
        lines.append(f"{node} {{ global: {names} }};\n")
    if default_node:
        lines.append(f"{default_node} {{ global: *; }};\n")
    elif not lines:
        lines.append("{ global: *; };\n")
    return "".join(lines)
