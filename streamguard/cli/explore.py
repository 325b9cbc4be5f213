"""`streamguard run --explore`: run a command under many schedules and compare what it computes."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from streamguard import exit_status
from streamguard.cli.child import run_command
from streamguard.cli.launchers import forwarding
from streamguard.errors import UsageError
from streamguard.vgpu.comparison import Difference, first_difference
from streamguard.vgpu.results import RankResults, read_results
from streamguard.vgpu.schedules import DEFAULT_SCHEDULES, REFERENCE, to_compare

_LOG = "output.txt"
_FAILED = 1
_HINT = 'call streamguard.vgpu.result("loss", loss) in the program'


@dataclass(frozen=True, slots=True)
class _Run:
    """The command under one schedule."""

    token: str
    status: int
    ranks: tuple[RankResults, ...]
    log: Path

    @property
    def count(self) -> int:
        return sum(len(rank.results) for rank in self.ranks)

    @property
    def rescues(self) -> int:
        return sum(rank.rescues for rank in self.ranks)


@dataclass(frozen=True, slots=True)
class _Finding:
    """A schedule under which the command did something else than under the reference."""

    token: str
    difference: Difference | None  # None: it ended with another status
    statuses: tuple[int, int]

    def text(self) -> str:
        found = self.difference
        if found is None:
            return f"status {self.statuses[1]}, and {self.statuses[0]} under {REFERENCE}"
        more = f", {found.elements} elements differ" if found.elements > 1 else ""
        return (
            f"rank {found.rank}: {found.place} is {found.found}, "
            f"and {found.expected} under {REFERENCE}{more}"
        )


class Exploration:
    """Runs one command under schedules and says what differs.

    Args:
        command: The command, with its launcher.
        environ: Its environment, with the STREAMGUARD variables of the virtual GPU.
        output: Directory for results and output, one folder a run.
        as_json: Print JSON lines to standard output instead of text to standard error.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], output: Path, *, as_json: bool
    ) -> None:
        self._command = tuple(command)
        # Orders that Python draws at start, as of sets of strings, would differ between runs.
        self._environ = {"PYTHONHASHSEED": "0", **environ}
        self._environ.pop("STREAMGUARD", None)
        self._output = output
        self._as_json = as_json
        self._runs = 0

    def run(self, schedules: tuple[str, ...]) -> int:
        """Run everything and return the exit status."""
        to_compare(schedules, 2)  # a wrong one is said before anything runs
        reference = self._one(REFERENCE, "reference")
        if reference.status != 0:
            self._say(f"the command ended with status {reference.status}; nothing was compared")
            self._tail(reference)
            self._verdict("failed", reference, [], None)
            return reference.status
        if reference.count == 0:
            self._say(f"nothing to compare: the command named no results; {_HINT}")
            self._verdict("checked-nothing", reference, [], None)
            return exit_status.CHECKED_NOTHING
        streams = max(rank.streams for rank in reference.ranks)
        tokens = to_compare(schedules, streams)
        done = [reference]
        for number, token in enumerate(tokens, start=1):
            run = self._one(token, f"{number} of {len(tokens)}")
            done.append(run)
            finding = _compare(reference, run)
            if finding is not None:
                return self._confirm(reference, run, finding, done)
        self._end_equal(reference, done)
        return exit_status.CLEAN

    def _one(self, token: str, position: str) -> _Run:
        folder = self._output / f"{self._runs:03d}-{token.replace(':', '-').replace(',', '-')}"
        self._runs += 1
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob("rank-*.jsonl"):
            stale.unlink()
        environ = {
            **self._environ,
            "STREAMGUARD_VGPU_SCHEDULE": token,
            "STREAMGUARD_VGPU_RESULTS": str(folder),
        }
        self._progress(f"[{position}] {token} … ")
        begin = time.monotonic()
        log = folder / _LOG
        with log.open("wb") as file, forwarding(self._command, environ) as launch:
            status = run_command(launch.command, launch.environ, output=file)
        run = _Run(token, status, read_results(folder) if status == 0 else (), log)
        rescued = f", {run.rescues} timed rescues" if run.rescues else ""
        seconds = time.monotonic() - begin
        self._progress(f"{run.count} results, status {status}, {seconds:.1f} s{rescued}\n")
        if self._as_json:
            self._print_json(
                type="schedule", token=token, status=status, results=run.count, rescues=run.rescues
            )
        return run

    def _confirm(self, reference: _Run, run: _Run, finding: _Finding, done: list[_Run]) -> int:
        """Run both once more: a difference counts only if each schedule repeats itself."""
        for first in (run, reference):
            again = _compare(first, self._one(first.token, "once more"))
            if again is None:
                continue
            self._say(
                f"two runs under {first.token} differ as well, so the order is not what varies. "
                "Set seeds and switch off what is random or depends on time"
            )
            self._verdict("unstable", reference, done, again)
            return _FAILED
        self._say(f"the results depend on the schedule. Under {finding.token}, {finding.text()}")
        if finding.difference is None:
            self._tail(run)
        self._say(f"run it again: {self._replay(finding.token)}")
        self._verdict("difference", reference, done, finding)
        return exit_status.RACES

    def _end_equal(self, reference: _Run, done: list[_Run]) -> None:
        ranks = len(reference.ranks)
        self._say(
            f"{reference.count} results of {ranks} {'rank' if ranks == 1 else 'ranks'} are the "
            f"same, byte by byte, under {len(done)} schedules"
        )
        rescued = [run.token for run in done if run.rescues]
        if rescued:
            self._say(
                f"of these, {len(rescued)} took an order that their token does not repeat, because "
                f"the program slept while work was pending: {', '.join(rescued)}"
            )
        self._verdict("equal", reference, done, None)

    def _replay(self, token: str) -> str:
        devices = self._environ["STREAMGUARD_VGPU"]
        return (
            f"streamguard run --vgpu {devices} --explore --schedules {token} -- "
            f"{shlex.join(self._command)}"
        )

    def _tail(self, run: _Run) -> None:
        lines = run.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        self._say("\n    ".join([f"the end of {run.log}:", *lines]))

    def _progress(self, text: str) -> None:
        sys.stderr.write(text if text.endswith("\n") else f"streamguard: {text}")
        sys.stderr.flush()

    def _say(self, text: str) -> None:
        sys.stderr.write(f"streamguard: {text}\n")

    def _verdict(
        self, verdict: str, reference: _Run, done: Sequence[_Run], finding: _Finding | None
    ) -> None:
        if not self._as_json:
            return
        difference = None if finding is None else finding.difference
        self._print_json(
            type="exploration",
            verdict=verdict,
            results=reference.count,
            ranks=len(reference.ranks),
            schedules=[run.token for run in done],
            rescued=[run.token for run in done if run.rescues],
            token=None if finding is None else finding.token,
            statuses=None if finding is None else finding.statuses,
            difference=None if difference is None else asdict(difference),
            replay=None if finding is None else self._replay(finding.token),
        )

    def _print_json(self, **record: object) -> None:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


def explore(arguments: argparse.Namespace, command: Sequence[str], environ: dict[str, str]) -> int:
    """Run `streamguard run --explore`; `environ` is what a watched run would get."""
    for option in ("schedule", "ranks", "stacks", "error_exitcode"):
        if getattr(arguments, option) is not None:
            raise UsageError(
                f"--{option.replace('_', '-')} does not go with --explore; choose schedules with "
                "--schedules"
            )
    if arguments.accesses:
        raise UsageError("--accesses does not go with --explore, which watches no accesses")
    chosen = arguments.schedules
    schedules = DEFAULT_SCHEDULES if chosen is None else tuple(chosen.split())
    output = Path(environ["STREAMGUARD_OUTPUT"])
    exploration = Exploration(command, environ, output, as_json=arguments.json)
    return exploration.run(schedules)


def _compare(reference: _Run, run: _Run) -> _Finding | None:
    statuses = (reference.status, run.status)
    if run.status != reference.status:
        return _Finding(run.token, None, statuses)
    difference = first_difference(reference.ranks, run.ranks)
    return None if difference is None else _Finding(run.token, difference, statuses)
