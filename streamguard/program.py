"""A session around a whole program under `STREAMGUARD=1`: the rank's file and the report at exit.

Only a *rank* leaves a trace: a process that initialised CUDA or a process group. Launchers, data
loading workers and compile workers run this code too and stay silent.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import multiprocessing.util
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamguard import hooks, identity
from streamguard.config import Config, parse
from streamguard.device_identity import identify
from streamguard.errors import StreamguardError
from streamguard.hooks import Enforcing, Sampling, native
from streamguard.node_report import (
    print_node_report,
    print_report,
    report_path,
    say_that_it_is_late,
)
from streamguard.output_directory import problem_of
from streamguard.report.fields import FieldError
from streamguard.report.jsonl import RankFile, Record, to_line
from streamguard.report.merge import merge_ranks, read_directory
from streamguard.report.model import (
    Coverage,
    Finding,
    Misuse,
    RankFindings,
    RankStart,
    RankSummary,
    WatchedAccess,
)
from streamguard.report_filter import Filters
from streamguard.session import Session

if TYPE_CHECKING:
    from streamguard.trace.recording import Recording


def start_from_environment() -> None:
    """Watch this process as the STREAMGUARD variables ask, until it ends; torch must be imported.

    Raises:
        ConfigurationError: a variable has a value that is not understood.
    """
    config = parse(os.environ)
    if config.active:
        Program(config).start()


def output_directory(config: Config) -> Path:
    """Where the ranks of a run write."""
    return config.output if config.output is not None else Path(f"streamguard-{config.run}")


def report_if_nobody_did() -> None:
    """In the first process of a run, which is no rank itself: print what local rank 0 did not.

    Local rank 0 may have been killed, or no process may have become a rank at all.
    """
    config = parse(os.environ)
    directory = output_directory(config)
    if config.reports_elsewhere or _is_reported_by_another_task(config):
        return
    if report_path(directory, str(config.run), identity.host_hash()).exists():
        return
    result = read_directory(directory)
    ranks = [rank for rank in result.ranks if rank.start.run == config.run]
    problem = problem_of(directory) if not ranks else None
    if problem is not None:
        # Whatever ranks there were have said so as well and have printed their own findings.
        print(f"streamguard: no results in {directory}: {problem}", file=sys.stderr)
        return
    print_report(merge_ranks(ranks, notes=result.notes, access_patterns=config.accesses))


def _is_reported_by_another_task(config: Config) -> bool:
    """Each task of an `srun` step is a first process; the first of each node reports."""
    is_task = config.run == identity.run_id_of_step(os.environ)
    return is_task and identity.rank_start(config).local_rank != 0


class Program:
    """Watches one process and, if it turns out to be a rank, writes what it finds.

    Args:
        config: What the STREAMGUARD variables ask for.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._pid = os.getpid()
        # The program may change its directory; the files of all ranks belong into one place.
        self._directory = output_directory(config).absolute()
        self._session = Session(
            stacks=config.stacks,
            accesses=config.accesses,
            enforcing=_enforcing(config),
            confirming=config.mode == "confirm",
            cupti=config.cupti,
            sampling=Sampling(every=config.every, streams=config.streams),
            filters=Filters(tensors=config.tensors, modules=config.modules),
            on_finding=self._on_finding,
        )
        self._recording = self._new_recording()
        self._is_watching = False
        self._start: RankStart | None = None
        self._file: RankFile | None = None
        self._has_lost_file = False
        self._was_reported = False
        self._problems: list[str] = []
        self._is_finished = False
        self._has_parents_group = False

    def start(self) -> None:
        """Install everything; the rest happens in the callbacks and at exit."""
        import torch

        if self._is_selected(identity.environment_rank(os.environ)):
            self._begin_recording()
            try:
                self._session.start()
                self._is_watching = True
            except (StreamguardError, ImportError) as error:
                self._note(f"nothing was watched: {error}")
        _after_init_process_group(self.become_rank)
        torch.cuda._lazy_call(self.become_rank)
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self._after_fork)

    def become_rank(self) -> None:
        """Open this rank's file; later, write the start record anew when more is known of it."""
        if os.getpid() != self._pid:
            return  # a rank's child, see `_after_fork`
        if self._start is not None and identity.process_group() is None:
            # Nothing newer can be known; a group that was destroyed must not make us rank 0 again.
            return
        start = identity.rank_start(self._config)
        if start == self._start:
            return
        if self._start is None and multiprocessing.parent_process() is not None:
            # A forked worker ends with os._exit: atexit functions do not run there.
            multiprocessing.util.Finalize(None, self.finish, exitpriority=-100)
        if self._start is None:
            for problem in self._problems:
                self._say(problem)
            # An earlier attempt of a job that was started anew leaves a report of its own.
            self._was_reported = self._is_reported(start)
        self._start = start
        if not self._is_selected(start.rank):
            self._discard_recording()
            return
        if self._file is None and not self._has_lost_file:
            try:
                self._file = RankFile(self._directory, rank=start.rank, pid=start.pid)
            except OSError as error:
                self._lose_file(error)
        self._append(start)
        if self._recording is not None:
            self._recording.open(start)
            self._recording.note(to_line(start))

    def finish(self) -> None:
        """Write the last records and, on local rank 0, print the node's report. Runs once."""
        if self._is_finished or os.getpid() != self._pid:
            return
        self._is_finished = True
        found = self._stop_watching()
        found = self._stop_recording(found)
        start = self._start
        if start is None:
            return
        is_selected = self._is_selected(start.rank)
        own = found if is_selected else None
        # Before the summary is written, since the report may be printed as soon as it is.
        is_late = not self._was_reported and self._is_reported(start)
        if is_selected:
            self._append_all(found)
        if found.is_idle and start.world_size == 1 and not self._has_lost_file:
            # A launcher, or a program that did nothing: the first process prints if nobody does.
            return
        if start.local_rank == 0 and not self._config.reports_elsewhere:
            print_node_report(start, self._directory, own=own, patterns=self._config.accesses)
        elif self._has_lost_file and own is not None:
            print_report(merge_ranks([own], expected_ranks=[start.rank]))
        elif is_selected and is_late:
            say_that_it_is_late(start, self._directory)

    def _is_reported(self, start: RankStart) -> bool:
        return report_path(self._directory, start.run, start.host).exists()

    def _stop_watching(self) -> RankFindings:
        findings: tuple[Finding, ...] = ()
        coverage = Coverage()
        misuses: tuple[Misuse, ...] = ()
        accesses: tuple[WatchedAccess, ...] = ()
        if self._is_watching:
            try:
                self._session.stop()
                findings = (*self._session.findings(), *self._session.waits())
                coverage = replace(self._session.coverage(), devices=identify(hooks.devices()))
                misuses = self._session.misuses()
                accesses = self._session.accesses()
            except (StreamguardError, FieldError) as error:
                self._note(f"the findings could not be read: {error}")
        has_own_group = coverage.process_group and not self._has_parents_group
        if has_own_group or coverage.cuda_initialised:
            self.become_rank()
        start = self._start or identity.rank_start(self._config)
        summary = RankSummary(start.rank, start.pid, coverage, tuple(self._problems))
        return RankFindings(start, findings, misuses, accesses, summary)

    def _new_recording(self) -> Recording | None:
        if self._config.trace is None:
            return None
        from streamguard.trace.recording import Recording

        return Recording(self._config.trace.absolute(), on_problem=self._note)

    def _begin_recording(self) -> None:
        """Before the session starts, since a trace must hold the engine's first call."""
        if self._recording is None:
            return
        try:
            native.load()
            self._recording.begin()
        except StreamguardError:
            self._recording = None  # the session says it as well
        except ImportError as error:
            self._recording = None
            self._note(f"no trace is written: {error}; install streamguard[trace]")

    def _discard_recording(self) -> None:
        if self._recording is not None:
            self._recording.close()
            self._recording = None

    def _stop_recording(self, found: RankFindings) -> RankFindings:
        """Put the summary behind the last op, and end the trace."""
        if self._recording is None:
            return found
        for finding in found.findings:
            if finding.inserted is not None:  # no call of the engine tells of these
                self._recording.note(to_line(finding))
        if found.summary is not None:
            self._recording.note(to_line(found.summary))
        self._recording.close()
        if found.summary is None:
            return found
        summary = replace(found.summary, problems=tuple(self._problems))
        return replace(found, summary=summary)

    def _append_all(self, found: RankFindings) -> None:
        for finding in found.findings:
            self._append(finding)
        for misuse in found.misuses:
            self._append(misuse)
        for access in found.accesses:
            self._append(access)
        if found.summary is not None:
            self._append(found.summary)

    def _on_finding(self, finding: Finding) -> None:
        if os.getpid() != self._pid or self._is_finished:
            return
        if self._start is None:
            self.become_rank()
        self._append(finding)

    def _append(self, record: Record) -> None:
        if self._file is None:
            return
        try:
            self._file.append(record)
        except OSError as error:
            self._lose_file(error)

    def _lose_file(self, error: OSError) -> None:
        self._file = None
        self._has_lost_file = True
        self._note(
            f"cannot write to {self._directory}: {error.strerror or error}; "
            "findings are kept in memory and printed at the end"
        )

    def _note(self, problem: str) -> None:
        """Keep a problem for the report; a rank says it at once, for it may run for days."""
        self._problems.append(problem)
        if self._start is not None:
            self._say(problem)

    def _say(self, problem: str) -> None:
        print(f"streamguard: {problem}", file=sys.stderr, flush=True)

    def _is_selected(self, rank: int) -> bool:
        return self._config.ranks is None or rank in self._config.ranks

    def _after_fork(self) -> None:
        """In a forked child: it may become a rank of its own, watched from its first op.

        A child of a process that uses CUDA cannot use it: it is a helper, and does nothing here,
        since everything that was opened belongs to another process id.
        """
        import torch

        self._recording = None
        if torch.cuda.is_initialized():
            return
        self._pid = os.getpid()
        self._start = None
        self._file = None
        self._has_parents_group = identity.process_group() is not None
        if not self._is_watching:
            return
        self._session.begin_anew_in_child(self._begin_child_recording)

    def _begin_child_recording(self) -> None:
        self._recording = self._new_recording()
        self._begin_recording()


def _enforcing(config: Config) -> Enforcing | None:
    if config.mode != "enforce":
        return None
    # The virtual GPU's kernels take no time, so its event times say nothing.
    return Enforcing(only=config.enforce_only, is_timed=config.vgpu_devices is None)


def _after_init_process_group(callback: Callable[[], None]) -> Callable[[], None]:
    """Call back after every successful `init_process_group`. Returns undo."""
    import torch.distributed as distributed

    if not distributed.is_available():
        return lambda: None
    from torch.distributed import distributed_c10d

    original = distributed_c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: object, **kwargs: object) -> object:
        result = original(*args, **kwargs)
        callback()
        return result

    homes = (distributed, distributed_c10d)
    for home in homes:
        home.init_process_group = init_process_group

    def undo() -> None:
        for home in homes:
            if home.init_process_group is init_process_group:
                home.init_process_group = original

    return undo
