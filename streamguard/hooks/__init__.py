"""Watches torch: installs the native hooks, names what they see, hands out what they found.

The functions of this module are the only way in; they may be called from any thread. Importing it
does not import torch.
"""

from __future__ import annotations

from streamguard.hooks.install import Enforcing, Sampling, Sink, begin_anew_in_child, install
from streamguard.hooks.naming import (
    current_op,
    listen_to_names,
    name_listeners,
    name_region,
    name_stream,
    note,
    set_step,
    watch,
)
from streamguard.hooks.results import (
    coverage,
    devices,
    early_frees,
    finding,
    finding_place,
    findings,
    flush,
    tell_places_apart,
    watched,
)

__all__ = [
    "Enforcing",
    "Sampling",
    "Sink",
    "begin_anew_in_child",
    "coverage",
    "current_op",
    "devices",
    "early_frees",
    "finding",
    "finding_place",
    "findings",
    "flush",
    "install",
    "listen_to_names",
    "name_listeners",
    "name_region",
    "name_stream",
    "note",
    "set_step",
    "tell_places_apart",
    "watch",
    "watched",
]
