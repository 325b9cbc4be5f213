"""What was found and how much was seen, as plain dictionaries.

Names, stream roles and source lines are looked up when these functions are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAMES_SHOWN = 8  # of kernels that are not observed
KERNELS_SHOWN = 8  # of launches outside any op
LAYERS = ("observer", "gputrace", "allocator", "c10d")


def finding(finding_id: int) -> dict[str, object]:
    """Return one finding.

    Raises:
        IndexError: no finding has this id.
    """
    from streamguard import _hooks

    return _hooks.finding(finding_id)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finding belongs.

    Attributes:
        pair: The first finding of the same pair of lines.
        is_rest: It stands for all places of the pair beyond those that are told apart.
        modules: Numbers of the modules that its ops were issued in.
    """

    pair: int
    is_rest: bool
    modules: tuple[int, int]


def finding_place(finding_id: int) -> Place:
    """Return where a finding belongs."""
    from streamguard import _hooks

    pair, is_rest, first, second = _hooks.finding_place(finding_id)
    return Place(pair, is_rest, (first, second))


def tell_places_apart(number: int) -> None:
    """Keep a finding for each place of a pair from now on, in places of this number; 0: one.

    Places are the bytes, their names, and the modules in which the ops are issued.
    """
    from streamguard import _hooks

    _hooks.tell_places_apart(number)


def findings() -> list[dict[str, object]]:
    """Return all distinct findings of the process, oldest first."""
    from streamguard import _hooks

    return _hooks.findings()


def watched() -> list[dict[str, object]]:
    """Return the accesses to watched regions, repeats counted, and what orders each pair."""
    from streamguard import _hooks

    return _hooks.watched()


def early_frees() -> list[dict[str, object]]:
    """Return the kinds of blocks freed while another stream still used them (SG101).

    Accesses that are part of a finding are left out: who repairs that needs no hint.
    """
    from streamguard import _hooks

    raced = set()
    for found in _hooks.findings():
        for side in (found["first"], found["second"]):
            assert isinstance(side, dict)
            stream = side["stream"]["name"] if side["stream"] else ""
            raced.add((side["op"], stream, str(side["frames"] or side["forward_frames"])))
    return [
        freed
        for freed in _hooks.early_frees()
        if (freed["op"], freed["stream"], str(freed["frames"])) not in raced
    ]


def flush() -> None:
    """Announce findings that no op has announced yet (those made inside a driver callback)."""
    from streamguard import _hooks

    _hooks.flush()


def devices() -> set[int]:
    """Return the devices whose streams had ops."""
    from streamguard import _hooks

    streams = _hooks.counters()["streams"]
    assert isinstance(streams, list)
    return {stream["device"] for stream in streams if stream["ops"]}


def coverage() -> dict[str, object]:
    """Say what was seen, and what could not be.

    `launches_observed` is True where the interposer was preloaded, or CUPTI heard all the time:
    then launches outside of torch's operators are counted, by kernel. Otherwise the count of ops is
    never all that ran.
    """
    import torch
    import torch.distributed

    from streamguard import _hooks
    from streamguard.hooks.cupti import heard
    from streamguard.hooks.extension_calls import unknown_extension_calls
    from streamguard.hooks.nccl_profiler import coverage as nccl_coverage
    from streamguard.hooks.peer_memory import peer_memory_calls
    from streamguard.hooks.triton_launches import declared_launches

    counters: dict[str, Any] = _hooks.counters()
    counters["launches"] += declared_launches()
    unobserved = _hooks.unobserved_kernels()
    allocator_is_traced = _hooks.is_allocator_traced()
    truncated = counters.pop("truncated_tensors")
    replays = counters.pop("replays")
    unknown_replays = counters.pop("unknown_replays")
    interposed = bool(counters.pop("interposed"))
    cupti = heard()
    is_nccl_heard, other_nccl_plugin, nccl_calls = nccl_coverage()
    limits = {
        "ops in steps that were not looked at": counters.pop("ops_of_other_steps"),
        "ops on streams that were not looked at": counters.pop("ops_on_other_streams"),
        "races of pairs beyond the first 10000": counters.pop("races_left_out"),
        "tensors with more than 1024 separate runs": truncated,
        "replays of graphs whose capture was not seen": unknown_replays,
        "queries by libraries, which order nothing": counters.pop("unused_queries"),
        **peer_memory_calls(),
        **unknown_extension_calls(),
        **{f"{name} outside torch.distributed": n for name, n in nccl_calls.items()},
        **_opaque_kernels({**counters.pop("opaque_kernels"), **_triton_kernels()}),
    }
    opaque = {what: count for what, count in limits.items() if count}
    layers = [layer for layer in LAYERS if layer != "allocator" or allocator_is_traced]
    layers += ["runtime"] if interposed else []
    layers += ["cupti"] if cupti.in_part else []
    layers += ["nccl"] if is_nccl_heard else []
    gave_way = [f"nccl to {other_nccl_plugin}"] if other_nccl_plugin else []
    gave_way += [f"cupti to {cupti.gave_way_to}"] if cupti.gave_way_to else []
    return {
        **counters,
        "graph_replays": replays,
        "layers": layers,
        "opaque": opaque,
        "gave_way": gave_way,
        "silent": [f"cupti ({cupti.problem})"] if cupti.problem else [],
        "launches_observed": interposed or cupti.throughout,
        "thread_handover_assumed": True,
        "unregistered_kernels": len(unobserved),
        "unregistered_kernel_names": unobserved[:NAMES_SHOWN],
        "cuda_initialised": bool(torch.cuda.is_initialized()),
        "process_group": bool(
            torch.distributed.is_available() and torch.distributed.is_initialized()
        ),
    }


def _triton_kernels() -> dict[str, int]:
    from streamguard.hooks.triton_launches import opaque_launches

    return {f"{name} (Triton)": count for name, count in opaque_launches().items()}


def _opaque_kernels(launches: dict[str, int]) -> dict[str, int]:
    """Name the kernels that were launched most often, and count the others."""
    by_count = sorted(launches.items(), key=lambda item: (-item[1], item[0]))
    named = {f"kernel {name}": count for name, count in by_count[:KERNELS_SHOWN]}
    others = sum(count for _, count in by_count[KERNELS_SHOWN:])
    return {**named, "other kernels": others}
