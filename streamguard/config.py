"""Every STREAMGUARD variable, read and checked in one place.

The variables are the only channel from `streamguard run` to the ranks, so a wrong value is refused
here, before the program starts, and never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from streamguard.errors import ConfigurationError

Stacks = Literal["off", "leaf", "full"]
Reducer = Literal["own", "repair"]
Collectives = Literal["off", "async", "strict"]
OnHang = Literal["report", "abort", "raise"]
Mode = Literal["watch", "enforce", "confirm"]

STACKS: tuple[Stacks, ...] = ("off", "leaf", "full")
REDUCERS: tuple[Reducer, ...] = ("own", "repair")
COLLECTIVES: tuple[Collectives, ...] = ("off", "async", "strict")
ON_HANG: tuple[OnHang, ...] = ("report", "abort", "raise")
DEFAULT_HANG_AFTER_S = 60.0
_MODES: dict[str, Mode | None] = {
    "0": None,
    "1": "watch",
    "enforce": "enforce",
    "confirm": "confirm",
}
DEFAULT_MEMORY_MB = 16384
MAX_DEVICES = 64
_MEMORY_DIGITS = 12  # its bytes fit into 64 bits

_SCHEDULE = re.compile(
    r"eager|lazy|extreme:[0-9]+,[0-9]+|random:[0-9]{1,19}|pct:[0-9]{1,19}(,([1-9]|[1-5][0-9]|6[0-4]))?"
)
_SCHEDULE_EXPECTED = (
    "eager, lazy, extreme:I,J (two different stream numbers), random:SEED or pct:SEED[,DEPTH]"
)
DEFAULT_DEADLOCK_S = 60
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")

Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Config:
    """What the STREAMGUARD variables ask for.

    Attributes:
        active: The detector watches this process.
        mode: What it does besides: nothing, put in the waits that are missing, or try whether
            races change bytes.
        cupti: Hear runtime calls through CUPTI where no library is preloaded that tells of them.
        every: Look at the ops of every n-th training step only.
        streams: Names of streams whose ops are looked at; empty: all.
        tensors: Names of tensors whose races are reported; empty: all.
        modules: Names of modules whose races are reported; empty: all.
        enforce_only: Names of streams to which enforced waits are limited; empty: all.
        vgpu_devices: Number of virtual devices, or None for the machine's own GPUs.
        vgpu_schedule: Which of the allowed orders the virtual GPU takes.
        vgpu_values: The virtual GPU computes values.
        vgpu_log: Where the virtual GPU logs its API calls; `%p` stands for the process id.
        vgpu_deadlock_s: Seconds without progress after which the virtual GPU reports a deadlock;
            0 for never.
        vgpu_results: Directory for the results that the program names, or None.
        vgpu_memory_mb: Size of each virtual device, in MiB.
        output: Directory of the result files, or None for `streamguard-<run>`.
        trace: Directory of the op traces, or None for no traces.
        run: Id of the run that this process belongs to, or None in the first process.
        exit_status: Findings decide the exit status of a program that itself ends with 0.
        accesses: Patterns of region names whose accesses are listed.
        ranks: The ranks to watch, or None for all.
        stacks: How many Python frames are kept with each op.
        audit: The recorded collectives are compared with theory when the program ends.
        timing: The recorded collectives are timed; by default where they are audited.
        collectives: How ranks compare their collectives: not, behind the run, or before each call.
        plan_check: Ranks compare their optimizer groups, and the calls of their first step.
        hang_after_s: How long a collective may wait for a rank, in seconds, before it is reported.
        on_hang: What follows that report: nothing, the end of the process, or an error.
        reports_elsewhere: `streamguard run` collects and prints; this process only writes its file.
        reducer: What reduces DeepSpeed's gradients instead of DeepSpeed alone, or None.
    """

    active: bool = False
    mode: Mode = "watch"
    cupti: bool = False
    enforce_only: tuple[str, ...] = ()
    every: int = 1
    streams: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    vgpu_devices: int | None = None
    vgpu_schedule: str = "eager"
    vgpu_values: bool = True
    vgpu_log: str | None = None
    vgpu_memory_mb: int = DEFAULT_MEMORY_MB
    vgpu_deadlock_s: int = DEFAULT_DEADLOCK_S
    vgpu_results: Path | None = None
    output: Path | None = None
    trace: Path | None = None
    run: str | None = None
    exit_status: bool = False
    accesses: tuple[str, ...] = ()
    ranks: frozenset[int] | None = None
    stacks: Stacks = "full"
    audit: bool = False
    timing: bool = False
    collectives: Collectives = "off"
    plan_check: bool = True
    hang_after_s: float = DEFAULT_HANG_AFTER_S
    on_hang: OnHang = "report"
    reports_elsewhere: bool = False
    reducer: Reducer | None = None

    @property
    def records_collectives(self) -> bool:
        """Whether anything wants the record of collectives."""
        return self.audit or self.timing or self.collectives != "off"


def parse(environ: Mapping[str, str]) -> Config:
    """Read all STREAMGUARD variables of an environment.

    An empty value means the same as no variable.

    Raises:
        ConfigurationError: a value is not understood; `variable` says which.
    """
    mode = _mode(environ, "STREAMGUARD")
    audit = _switch(environ, "STREAMGUARD_AUDIT", default=False)
    return Config(
        active=mode is not None,
        mode=mode or "watch",
        cupti=_switch(environ, "STREAMGUARD_CUPTI", default=False),
        every=_every(environ, "STREAMGUARD_EVERY", mode),
        streams=parse_patterns(environ.get("STREAMGUARD_STREAMS", "")),
        tensors=parse_patterns(environ.get("STREAMGUARD_TENSORS", "")),
        modules=parse_patterns(environ.get("STREAMGUARD_MODULES", "")),
        enforce_only=parse_patterns(environ.get("STREAMGUARD_ENFORCE_ONLY", "")),
        vgpu_devices=_devices(environ, "STREAMGUARD_VGPU"),
        vgpu_schedule=_schedule(environ, "STREAMGUARD_VGPU_SCHEDULE"),
        vgpu_values=_switch(environ, "STREAMGUARD_VGPU_VALUES", default=True),
        vgpu_log=environ.get("STREAMGUARD_VGPU_LOG") or None,
        vgpu_memory_mb=_memory(environ, "STREAMGUARD_VGPU_MEMORY_MB"),
        vgpu_deadlock_s=_whole_seconds(environ, "STREAMGUARD_VGPU_DEADLOCK_S", DEFAULT_DEADLOCK_S),
        vgpu_results=_path(environ, "STREAMGUARD_VGPU_RESULTS"),
        output=_path(environ, "STREAMGUARD_OUTPUT"),
        trace=_trace(environ, "STREAMGUARD_TRACE", mode),
        run=_run(environ, "STREAMGUARD_RUN"),
        exit_status=_switch(environ, "STREAMGUARD_EXIT", default=False),
        accesses=parse_patterns(environ.get("STREAMGUARD_ACCESSES", "")),
        ranks=_ranks(environ, "STREAMGUARD_RANKS"),
        stacks=_choice(environ, "STREAMGUARD_STACKS", STACKS, "full"),
        audit=audit,
        timing=_switch(environ, "STREAMGUARD_TIMING", default=audit),
        collectives=_choice(environ, "STREAMGUARD_COLLECTIVES", COLLECTIVES, "off"),
        plan_check=_switch(environ, "STREAMGUARD_PLAN_CHECK", default=True),
        hang_after_s=_seconds(environ, "STREAMGUARD_HANG_AFTER", DEFAULT_HANG_AFTER_S),
        on_hang=_choice(environ, "STREAMGUARD_ON_HANG", ON_HANG, "report"),
        reports_elsewhere=_switch(environ, "STREAMGUARD_REPORTS_ELSEWHERE", default=False),
        reducer=_reducer(environ, "STREAMGUARD_REDUCER"),
    )


def parse_patterns(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of name patterns.

    A comma inside brackets belongs to the pattern, as in `ipg_buckets[torch.bfloat16].buffer[0,1]`.
    """
    patterns = re.split(r",(?![^\[]*\])", text)
    return tuple(pattern.strip() for pattern in patterns if pattern.strip())


def _mode(environ: Mapping[str, str], variable: str) -> Mode | None:
    value = environ.get(variable) or "0"
    if value not in _MODES:
        raise ConfigurationError(variable, value, "1 (watch), enforce, confirm or 0 (off)")
    return _MODES[value]


def _every(environ: Mapping[str, str], variable: str, mode: Mode | None) -> int:
    value = environ.get(variable) or "1"
    if not value.isascii() or not value.isdecimal() or int(value) == 0:
        raise ConfigurationError(variable, value, "a number of steps, at least 1")
    if int(value) > 1 and mode == "enforce":
        raise ConfigurationError(variable, value, "1 where waits are enforced: in every step")
    return int(value)


def _switch(environ: Mapping[str, str], variable: str, *, default: bool) -> bool:
    value = environ.get(variable, "")
    if value == "":
        return default
    if value not in ("0", "1"):
        raise ConfigurationError(variable, value, "1 (on) or 0 (off)")
    return value == "1"


def _devices(environ: Mapping[str, str], variable: str) -> int | None:
    value = environ.get(variable, "")
    if value in ("", "0"):
        return None
    if not value.isascii() or not value.isdecimal() or not 1 <= int(value) <= MAX_DEVICES:
        raise ConfigurationError(variable, value, f"a number of devices, 1 to {MAX_DEVICES}")
    return int(value)


def _schedule(environ: Mapping[str, str], variable: str) -> str:
    value = environ.get(variable) or "eager"
    if not is_schedule(value):
        raise ConfigurationError(variable, value, _SCHEDULE_EXPECTED)
    return value


def is_schedule(token: str) -> bool:
    """Whether the virtual GPU has a schedule of this name."""
    if _SCHEDULE.fullmatch(token) is None:
        return False
    early, _, late = token.removeprefix("extreme:").partition(",")
    return not token.startswith("extreme:") or int(early) != int(late)


def _whole_seconds(environ: Mapping[str, str], variable: str, default: int) -> int:
    value = environ.get(variable, "")
    if value == "":
        return default
    if not value.isascii() or not value.isdecimal() or len(value) > 6:
        raise ConfigurationError(variable, value, "whole seconds, 0 for never")
    return int(value)


def _memory(environ: Mapping[str, str], variable: str) -> int:
    value = environ.get(variable, "")
    if value == "":
        return DEFAULT_MEMORY_MB
    in_digits = value.isascii() and value.isdecimal() and len(value) <= _MEMORY_DIGITS
    if not in_digits or int(value) == 0:
        raise ConfigurationError(variable, value, "a number of MiB, at least 1, below 10^12")
    return int(value)


def _path(environ: Mapping[str, str], variable: str) -> Path | None:
    value = environ.get(variable, "")
    return Path(value) if value else None


def _trace(environ: Mapping[str, str], variable: str, mode: Mode | None) -> Path | None:
    path = _path(environ, variable)
    if path is not None and mode == "confirm":
        raise ConfigurationError(
            variable, str(path), "no trace where races are tried: it could not tell of the tries"
        )
    return path


def _run(environ: Mapping[str, str], variable: str) -> str | None:
    value = environ.get(variable, "")
    if value == "":
        return None
    if _RUN.fullmatch(value) is None:
        raise ConfigurationError(variable, value, "letters, digits and . _ - only")
    return value


def _ranks(environ: Mapping[str, str], variable: str) -> frozenset[int] | None:
    value = environ.get(variable, "")
    if value == "":
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ConfigurationError(variable, value, "rank numbers separated by commas, such as 0,7")
    return frozenset(int(part) for part in parts)


def _reducer(environ: Mapping[str, str], variable: str) -> Reducer | None:
    value = environ.get(variable, "")
    if value == "":
        return None
    for reducer in REDUCERS:
        if value == reducer:
            return reducer
    raise ConfigurationError(variable, value, " or ".join(REDUCERS))


def _choice(
    environ: Mapping[str, str], variable: str, choices: tuple[Choice, ...], default: Choice
) -> Choice:
    value = environ.get(variable) or default
    for choice in choices:
        if value == choice:
            return choice
    raise ConfigurationError(variable, value, f"{', '.join(choices[:-1])} or {choices[-1]}")


def _seconds(environ: Mapping[str, str], variable: str, default: float) -> float:
    value = environ.get(variable, "")
    if value == "":
        return default
    if _SECONDS.fullmatch(value) is None or float(value) == 0:
        raise ConfigurationError(variable, value, "a number of seconds above 0, such as 60 or 2.5")
    return float(value)
