"""The recorder of collectives (csrc/collectives). Needs torch's libraries loaded, and no GPU."""

from collections.abc import Callable

BUILT_FOR_TORCH: str
"""`torch.__version__` of the torch whose headers were used."""

def install() -> int:
    """Register observers of the c10d ops, once per process; returns how many."""

def start(
    path: str,
    capacity: int,
    stack_depth: int,
    is_timed: bool,
    on_group: Callable[[int, str, str, int, int], None],
    on_site: Callable[[int], None],
    before: Callable[[int, int, int, int], str],
) -> None:
    """Record into a new ring file of `capacity` records, a power of two.

    `on_group` gets number, name, description, own rank and size of a group at its first use;
    `on_site` the number of a Python stack; `before`, in the strict mode, group, sequence,
    fingerprint and balance of a collective that is about to start, and returns an error or "".
    """

def stop() -> None: ...
def set_strict(is_strict: bool) -> None: ...
def forget_groups() -> None:
    """End all groups: one that is made at the same address later is another group."""

def set_step(step: int) -> None: ...
def set_times(position: int, start_ns: int, end_ns: int) -> None:
    """From when to when the work of the call at a position of the ring ran."""

def unrecorded_nccl_calls() -> tuple[dict[str, int], list[dict[str, object]], bool] | None:
    """NCCL's calls that no recorded op made; None where nobody counts them.

    Numbers by name, the newest calls as the profiler plugin heard them (`heard`: by the preloaded
    library as well), and whether NCCL has loaded the plugin.
    """

def frames(site: int) -> list[tuple[str, int, str]]:
    """File, line and function of the frames of a site, innermost first."""
