"""The session: the time during which the hooks watch, and what they found in it.

One session at a time owns the hooks. A session that starts inside another one (a test under
`STREAMGUARD=1`) is a window on the outer one: it shows only what happened while it was open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

RawFinding = dict[str, object]
Annotator = Callable[[RawFinding], Mapping[str, object]]

_annotators: list[Annotator] = []


def start_from_environment() -> None:
    """Start the session that the STREAMGUARD variables ask for; torch must be imported."""


def add_annotator(annotate: Annotator) -> Callable[[], None]:
    """Let `annotate(raw finding)` add fields to every finding, such as `known`.

    Returns:
        Undo: removes the annotator.
    """
    _annotators.append(annotate)

    def undo() -> None:
        if annotate in _annotators:
            _annotators.remove(annotate)

    return undo


def name_region(begin: int, end: int, name: str, since_op: int | None = None) -> None:
    """Name the bytes [begin, end) from op `since_op` on (default: from now on)."""


def name_stream(device: int, handle: int, name: str) -> None:
    """Name a stream by its role."""


def set_step(step: int) -> None:
    """Say that the program is now in training step `step`."""
