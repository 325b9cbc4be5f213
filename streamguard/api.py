"""streamguard from inside a program: watch a part of it, mark steps, read the findings.

`STREAMGUARD=1` needs none of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from streamguard import session
from streamguard.adapters import register_adapters
from streamguard.config import Stacks
from streamguard.report.model import Finding
from streamguard.report_filter import Filters
from streamguard.session import Session


@contextmanager
def watch(
    *,
    stacks: Stacks = "full",
    accesses: Iterable[str] = (),
    tensors: Iterable[str] = (),
    modules: Iterable[str] = (),
) -> Iterator[Session]:
    """Watch everything that happens inside the `with` block.

    Args:
        stacks: How many Python frames are kept with each op.
        accesses: Patterns of region names whose accesses are listed.
        tensors: Patterns of names; only races on regions, parameters, buffers and gradients that
            are called so are reported.
        modules: Patterns of qualified names; only races in such modules are reported: on their
            parameters, buffers and gradients, or of ops in their forward calls.

    Yields:
        The open session; its `findings()` and `report()` stay readable after the block.
    """
    undo = register_adapters()
    filters = Filters(tuple(tensors), tuple(modules))
    watching = Session(stacks=stacks, accesses=accesses, filters=filters)
    try:
        with watching:
            yield watching
    finally:
        undo()


def step() -> None:
    """Mark the end of a training step; findings say in which step they were first seen.

    With DeepSpeed the steps are marked without it. Without an open session nothing happens.
    """
    session.end_step()


def findings() -> tuple[Finding, ...]:
    """What the innermost open session found so far; empty without one."""
    watching = session.current()
    return () if watching is None else watching.findings()
