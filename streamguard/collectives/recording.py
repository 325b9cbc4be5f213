"""Records this process's collectives into its ring file, from `init_process_group` to the end."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TextIO

from streamguard.collectives.buffer_names import BufferNames
from streamguard.collectives.record import Group, RingReader, names_path
from streamguard.collectives.schemes import Listener, listen
from streamguard.config import Config, parse
from streamguard.errors import MissingBuildError

if TYPE_CHECKING:
    from streamguard.collectives.nccl_times import NcclTimes
    from streamguard.collectives.watch import Watch

CAPACITY = 1 << 15  # 4 MiB; the newest 32,768 calls
AUDIT_CAPACITY = 1 << 18  # 32 MiB: an audit counts every call
STACK_DEPTH = 16

_recording: Recording | None = None


def start_from_environment() -> None:
    """Record as the STREAMGUARD variables ask; torch must be imported. Later calls do nothing.

    Raises:
        MissingBuildError: the recorder was not built, or for another torch.
    """
    global _recording
    config = parse(os.environ)
    if _recording is None and config.records_collectives:
        _recording = Recording(config)
        _recording.start()


class Recording(Listener):
    """One process's record: the ring in C++, the names beside it, and who compares them.

    Args:
        config: What the STREAMGUARD variables ask for.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        directory = (
            config.output if config.output is not None else Path(f"streamguard-{config.run}")
        )
        self.directory = directory.absolute()
        self.rank = 0
        self.world_size = 1
        self.groups: dict[int, Group] = {}
        self.ring_path: Path | None = None
        self.steps = 0
        self.roles: dict[str, str] = {}
        self.made: list[tuple[int, ...]] = []
        self._generations: dict[str, int] = {}
        self._names: TextIO | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.buffers = BufferNames()
        self._waiting: list[dict[str, object]] = []
        self._watch: Watch | None = None
        self._times: NcclTimes | None = None

    def start(self) -> None:
        """Register the observers; the files are made once this process has a rank."""
        import torch.distributed as distributed

        native = load_native()
        if not distributed.is_available():
            return
        native.install()
        listen(self)
        _around(("init_process_group",), after=self._initialised)
        self._follow_new_groups()
        if self.config.active:
            from streamguard.hooks import listen_to_names

            listen_to_names(self._on_name)
        _around(("destroy_process_group",), before=self._destroying, after=self._destroyed)
        atexit.register(self.finish)

    def note(self, kind: str, **values: object) -> None:
        """Write one line into the names file."""
        self._write({"kind": kind, **values})

    def on_scheme(self, note: dict[str, object]) -> None:
        """Keep what DDP, FSDP or DeepSpeed said about itself."""
        self.note("scheme", **note)

    def on_role(self, key: str, role: str) -> None:
        """Call a group by what a library uses it for."""
        self.roles[key] = role
        for number, group in self.groups.items():
            if group.key == key:
                self.groups[number] = dataclasses.replace(group, name=role)
        self.note("role", key=key, role=role)

    def on_optimizer(
        self, groups: list[list[int]], names: list[str], owner: str, peers: list[int]
    ) -> None:
        """Keep an optimizer's groups, and let the ranks compare them."""
        self.note("optimizer", groups=groups, names=names, owner=owner, peers=peers)
        if self._watch is not None and self.config.plan_check:
            self._watch.compare_optimizer(groups, names, owner, peers)

    def on_step(self, count: int) -> None:
        """A step is complete."""
        if count == self.steps:
            return
        self.steps = count
        load_native().set_step(count)

    def frames(self, site: int) -> list[tuple[str, int, str]]:
        """The Python frames of a site."""
        return list(load_native().frames(site))

    def finish(self) -> None:
        """Say that this rank ended by itself, and let the watch say so to the others."""
        if os.getpid() != self._pid or self._names is None:
            return
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if self._times is not None:
            self._times.stop()
            self._times = None
        native = load_native()
        native.stop()
        self._note_unrecorded(native.unrecorded_nccl_calls())
        self._write({"kind": "end", "time": time.time(), "steps": self.steps})
        self._names.close()
        self._names = None
        if self.config.audit and self.rank == 0 and not self.config.reports_elsewhere:
            self._print_audit()

    def _note_unrecorded(
        self, heard: tuple[dict[str, int], list[dict[str, object]], bool] | None
    ) -> None:
        from streamguard.hooks.nccl_profiler import uncounted

        if heard is None:
            self.note("unrecorded", calls=None)
            return
        calls, newest, is_loaded = heard
        reason = uncounted(os.environ, is_loaded=is_loaded)
        self.note("unrecorded", calls=calls, newest=newest, uncounted=reason)

    def _print_audit(self) -> None:
        from streamguard.collectives.audit import audit_rank
        from streamguard.collectives.audit_text import render
        from streamguard.collectives.record import read_log

        assert self.ring_path is not None
        log = read_log(self.ring_path)
        if not len(log.records):
            self._say("audit: checked nothing: rank 0 recorded no collective")
            return
        with contextlib.suppress(OSError):
            sys.stderr.write(render(audit_rank(log)))
            sys.stderr.flush()

    def _initialised(self) -> None:
        import torch.distributed as distributed

        self.rank, self.world_size = distributed.get_rank(), distributed.get_world_size()
        if self._names is None:
            try:
                self._open()
            except OSError as error:
                self._say(f"collectives are not recorded: {error}")
                return
        else:
            self.note("rank", rank=self.rank, world_size=self.world_size)
        if self.config.collectives != "off" and self._watch is None and self.world_size > 1:
            self._start_watch()

    def _start_watch(self) -> None:
        from streamguard.collectives.exchange import store_obstacle
        from streamguard.collectives.watch import Watch

        obstacle = store_obstacle()
        if obstacle:
            if self.rank == 0:
                self._say(f"ranks are not compared: {obstacle}")
            return
        self._watch = Watch(self)
        self._watch.start()

    def _follow_new_groups(self) -> None:
        """Ranks that make a group of different members may hang before its first collective."""
        import torch.distributed as distributed
        from torch.distributed import distributed_c10d

        original = distributed_c10d.new_group

        @functools.wraps(original)
        def new_group(*arguments: object, **options: object) -> object:
            given = arguments[0] if arguments else options.get("ranks")
            # With local synchronisation only the members call, so nothing can be compared.
            if not options.get("use_local_synchronization"):
                ranks = range(self.world_size) if given is None else given
                self.made.append(tuple(sorted(int(rank) for rank in ranks)))  # type: ignore[attr-defined]
            return original(*arguments, **options)

        for home in (distributed, distributed_c10d):
            home.new_group = new_group

    def _destroying(self) -> None:
        if self._times is not None:
            self._times.settle()
        if self._watch is not None:
            self._watch.leave()

    def _destroyed(self) -> None:
        import torch.distributed as distributed

        if distributed.is_initialized():
            # It was one of the other groups.
            if self._watch is not None:
                self._watch.stay()
            return
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        load_native().forget_groups()

    def _open(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._pid = os.getpid()
        self.ring_path = self.directory / f"collectives-{self.rank}-{self._pid}.ring"
        self._names = names_path(self.ring_path).open("w", encoding="utf-8")
        self._write(
            {"kind": "start", "rank": self.rank, "world_size": self.world_size, "pid": self._pid,
             "run": self.config.run or "", "time": time.time(),
             "restart": os.environ.get("TORCHELASTIC_RESTART_COUNT", "")}
        )  # fmt: skip
        for waiting in self._waiting:
            self._write(waiting)
        native = load_native()
        native.start(
            str(self.ring_path),
            AUDIT_CAPACITY if self.config.audit else CAPACITY,
            STACK_DEPTH,
            self.config.timing,
            self._on_group,
            self._on_site,
            self._before,
        )

    def _before(self, group: int, sequence: int, fingerprint: int, balance: int) -> str:
        watch = self._watch
        return "" if watch is None else watch.before(group, sequence, fingerprint, balance)

    def _on_group(self, number: int, key: str, description: str, rank: int, size: int) -> None:
        with self._lock:
            generation = self._generations.get(key, 0) + 1
            self._generations[key] = generation
            ranks = _ranks_of(key, size)
            has_description = description not in ("", "undefined")
            name = description if has_description else f"group {key}"
            full_key = key if generation == 1 else f"{key}#{generation}"
            group = Group(number, full_key, self.roles.get(key) or name, ranks, rank)
            self.groups[number] = group
        self._write(
            {"kind": "group", "number": number, "key": group.key, "name": group.name,
             "ranks": list(ranks), "rank": rank}
        )  # fmt: skip
        if self.config.timing:
            self._time_calls_of(key)

    def _time_calls_of(self, key: str) -> None:
        from torch.distributed import distributed_c10d

        from streamguard.collectives import nccl_times

        try:
            is_timed = nccl_times.turn_on(distributed_c10d._resolve_process_group(key))
        except (KeyError, RuntimeError, ValueError):
            return  # made without torch.distributed's register
        if not is_timed or self._times is not None or self.ring_path is None:
            return
        obstacle = nccl_times.obstacle()
        if obstacle:
            self.note("untimed", reason=obstacle)
            return
        self._times = nccl_times.NcclTimes(
            RingReader(self.ring_path), self.groups, load_native().set_times
        )
        self._times.start()

    def _on_name(self, begin: int, end: int, name: str) -> None:
        # Many are named anew in every step; what stays the same is written once.
        time_ns = time.time_ns()
        if self.buffers.add(begin, end, name, time_ns):
            self.note("name", begin=begin, end=end, name=name, time_ns=time_ns)

    def _on_site(self, site: int) -> None:
        self._write({"kind": "site", "number": site, "frames": self.frames(site)})

    def _write(self, entry: dict[str, object]) -> None:
        if self._names is None:
            self._waiting.append(entry)
            return
        # One write and no buffer: it must be there when the process is killed the next moment.
        self._names.write(json.dumps(entry) + "\n")
        self._names.flush()

    def _say(self, text: str) -> None:
        print(f"streamguard: {text}", file=sys.stderr, flush=True)


@functools.cache
def load_native() -> ModuleType:
    """Import the recorder and refuse a torch that it was not built for."""
    import torch

    part = "streamguard._collectives"
    try:
        from streamguard import _collectives
    except ImportError as error:
        raise MissingBuildError(part, f"cannot be loaded ({error})") from error
    if str(torch.__version__) != _collectives.BUILT_FOR_TORCH:
        reason = f"was built for torch {_collectives.BUILT_FOR_TORCH}, this is {torch.__version__}"
        raise MissingBuildError(part, reason)
    return _collectives


def _ranks_of(key: str, size: int) -> tuple[int, ...]:
    import torch.distributed as distributed
    from torch.distributed import distributed_c10d

    try:
        group = distributed_c10d._resolve_process_group(key)
        return tuple(distributed.get_process_group_ranks(group))
    except Exception:
        # Groups made without torch.distributed's register have only a size.
        return tuple(range(size))


def _around(
    names: tuple[str, ...],
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
) -> None:
    import torch.distributed as distributed
    from torch.distributed import distributed_c10d

    for name in names:
        original = getattr(distributed_c10d, name)

        @functools.wraps(original)
        def wrapper(
            *args: object, original: Callable[..., object] = original, **kw: object
        ) -> object:
            if before is not None:
                before()
            result = original(*args, **kw)
            if after is not None:
                after()
            return result

        for home in (distributed, distributed_c10d):
            setattr(home, name, wrapper)
