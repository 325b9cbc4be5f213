"""Writes the C source and the version script of one replacement library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from outputs import Written, refusal_of, written_by

_LOGGING = """\
extern void streamguard_vgpu_log_unsupported(const char*);
"""


def stubs(stem: str, names: Iterable[str]) -> str:
    """Functions of a library that computes values, which the virtual GPU does elsewhere.

    Most succeed and do nothing: their status is all a caller looks at. `outputs` says which write
    something, or are refused because nothing can be made up.
    """
    ordered = sorted(names)
    refused = {name: refusal_of(stem, name) for name in ordered}
    bodies = [
        _body(name, written_by(name)) if refused[name] is None else _refusal(name, refused[name])
        for name in ordered
    ]
    return _LOGGING + "".join(bodies)


def _body(name: str, written: Written | None) -> str:
    if written is None:
        return f"int {name}(void) {{ return 0; }}\n"
    # Every argument up to the last pointer is an integer, an enumerator or a pointer: each takes
    # one register or one place on the stack, whatever its type.
    arguments = ", ".join(f"long a{number}" for number in range(1, max(written.positions) + 1))
    writes = "".join(
        f"*({written.c_type}*)a{position} = {written.value}; " for position in written.positions
    )
    return f"int {name}({arguments}) {{ {writes}return 0; }}\n"


def _refusal(name: str, status: int | None) -> str:
    return f'int {name}(void) {{ streamguard_vgpu_log_unsupported("{name}"); return {status}; }}\n'


def refusing_stubs(names: Iterable[str], *, status: int) -> str:
    """Functions that answer `status` and name themselves once in log and on stderr."""
    return _LOGGING + "".join(_refusal(name, status) for name in sorted(names))


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
