"""Starts jobs of several ranks on the virtual GPU and reads what they computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from streamguard.errors import StreamguardError
from streamguard.hooks.interposer import preloading

_LIMIT_S = 600.0  # a hang must end as a failure; eight ranks on a busy machine must not


class JobError(StreamguardError):
    """A job did not end with a result from every rank.

    Args:
        outcome: How it ended.
    """

    def __init__(self, outcome: Outcome) -> None:
        worst = next((r for r, status in enumerate(outcome.statuses) if status != 0), 0)
        how = "did not end in time" if outcome.timed_out else "failed"
        super().__init__(
            f"a job of {len(outcome.statuses)} ranks {how}, statuses {list(outcome.statuses)}; "
            f"rank {worst} wrote:\n{outcome.logs[worst]}"
        )
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended.

    Attributes:
        statuses: Exit status of each rank; negative: killed by that signal.
        timed_out: It was killed because it did not end.
        results: What each rank's program returned; None without a result.
        logs: The end of what each rank printed.
        calls: The virtual GPU's log of each rank's calls; empty unless it was asked for.
    """

    statuses: tuple[int, ...]
    timed_out: bool
    results: tuple[object, ...]
    logs: tuple[str, ...]
    calls: tuple[str, ...] = ()


class Jobs:
    """A process with torch on the virtual GPU whose forks are the ranks; also a context manager.

    Args:
        devices: Virtual devices; no job has more ranks.
        preload: Modules that programs need, imported once.
        environment: Variables in place of this process's own.
    """

    def __init__(
        self,
        *,
        devices: int,
        preload: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        inherited = os.environ if environment is None else environment
        variables = {k: v for k, v in inherited.items() if not k.startswith("STREAMGUARD")}
        # One thread: a product's rounding may depend on how many share it.
        variables |= {"OMP_NUM_THREADS": "1", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streamguard.verify.zygote", str(devices), *preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Hears launches outside of ops: without it the detector's coverage would be unknown.
            env=preloading(variables),
            text=True,
        )

    def __enter__(self) -> Jobs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def outcome(
        self,
        program: str,
        argument: object,
        *,
        ranks: int,
        schedule: str = "eager",
        limit_s: float = _LIMIT_S,
        logs_calls: bool = False,
    ) -> Outcome:
        """Run a job to its end, however it ends.

        Args:
            program: "module:function"; called as `function(rank, ranks, argument)` in each rank,
                with the default process group made; returns something JSON can hold.
            argument: Anything JSON can hold.
            ranks: Number of ranks, each on its own device.
            schedule: Schedule of every rank.
            limit_s: The job is killed after so many seconds.
            logs_calls: The virtual GPU logs its calls.

        Raises:
            StreamguardError: the process that runs jobs has ended.
        """
        job = {
            "program": program,
            "argument": argument,
            "ranks": ranks,
            "schedule": schedule,
            "limit_s": limit_s,
            "logs_calls": logs_calls,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise StreamguardError(
                f"the process that runs jobs ended with status {self._process.wait()}; what it "
                "wrote to standard error says why"
            )
        answer = json.loads(line)
        return Outcome(
            tuple(answer["statuses"]),
            answer["timed_out"],
            tuple(answer["results"]),
            tuple(answer["logs"]),
            tuple(answer["calls"]),
        )

    def run(
        self, program: str, argument: object, *, ranks: int, schedule: str = "eager"
    ) -> tuple[object, ...]:
        """Run a job and return each rank's result; see `outcome`.

        Raises:
            JobError: a rank failed or did not end.
        """
        return _successful(self.outcome(program, argument, ranks=ranks, schedule=schedule)).results

    def run_logged(
        self, program: str, argument: object, *, ranks: int, schedule: str = "eager"
    ) -> Outcome:
        """Run a job with the virtual GPU's log; see `outcome`.

        Raises:
            JobError: a rank failed or did not end.
        """
        return _successful(
            self.outcome(program, argument, ranks=ranks, schedule=schedule, logs_calls=True)
        )

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _successful(outcome: Outcome) -> Outcome:
    if any(status != 0 for status in outcome.statuses):
        raise JobError(outcome)
    return outcome
