"""The reducers that can be verified, by name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field

from streamguard.errors import UsageError

# Modules that may define `SUBJECTS: Mapping[str, Subject]`; a part that is not installed is left
# out. They are imported by the command and must load neither torch nor DeepSpeed.
_HOMES = ("streamguard.verify.subjects", "streamguard.deepspeed.verified_subjects")


@dataclass(frozen=True, slots=True)
class Subject:
    """A reducer and a training that exercises it.

    The program is called in every rank as `program(rank, ranks, argument)` with an argument of
    `overlap` (false: the reference, whose collectives do not run beside backward), `without` (name
    of the edge to leave out, or None) and `watch` (whether to run the detector). It returns
    `losses`, `gradients` and `parameters` (texts that differ when a bit differs), `rounds` and
    `steps` (how many backwards were reduced and how many steps made), `gradient_bytes` and
    `parameter_bytes` (of one round and step, on the wire), `padding_bytes` (added to either),
    `memory` (bytes: `slots`, `shards`, `deferred_peak`, and the `bound` on their sum),
    `late_allocations` (device allocations after the first step), and with `watch` also `findings`
    (a list of texts) and `coverage` (a mapping).

    Attributes:
        name: As given to `--reducer`.
        program: "module:function".
        edges: Names of the edges that `without` can leave out.
        claims_least_gradient_bytes: Whether it claims to send (N-1)/N of the gradients' bytes.
        ranks: Numbers of ranks that its training is made for.
        preload: Modules that the program needs, loaded once.
        environment: Variables set for it, such as PYTHONPATH.
    """

    name: str
    program: str
    edges: tuple[str, ...]
    claims_least_gradient_bytes: bool = True
    ranks: tuple[int, ...] = (2, 3, 4)
    preload: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


SUBJECTS: Mapping[str, Subject] = {
    "own": Subject(
        name="own",
        program="streamguard.verify.own:train",
        edges=("filled", "reduced", "shards_ready", "stepped", "gathered"),
        preload=("streamguard.verify.own",),
    )
}


def subject_of(name: str) -> Subject:
    """Return a reducer by name.

    Raises:
        UsageError: there is none of that name; the message lists them.
    """
    subjects: dict[str, Subject] = {}
    for home in _HOMES:
        if importlib.util.find_spec(home) is not None:
            subjects.update(importlib.import_module(home).SUBJECTS)
    if name not in subjects:
        known = ", ".join(sorted(subjects))
        raise UsageError(f"--reducer {name}: no such reducer; expected one of {known}")
    return subjects[name]
