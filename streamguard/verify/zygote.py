"""Runs jobs of several ranks on the virtual GPU, each rank a fork of this process.

`python -m streamguard.verify.zygote DEVICES` loads torch once; a job then costs no start-up, and
every rank still is a fresh process: own streams, own allocator, own schedule. A line of JSON on
standard input is a job, a line on standard output its outcome.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TextIO

_PAUSE_S = 0.005


def main() -> None:
    """Serve jobs until standard input ends."""
    # What programs print must not be taken for an outcome.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    devices = int(sys.argv[1])
    from streamguard.vgpu.load import load

    load(devices)
    import torch.distributed

    from streamguard.vgpu import values

    values.install()
    # Imported before the fork: torch's optimizers import torch._dynamo at their first step, 800
    # modules that take twenty times as long as a small training.
    for module in ("torch._dynamo", "streamguard.hooks", *sys.argv[2:]):
        importlib.import_module(module)
    assert not torch.cuda.is_initialized(), "a fork cannot use a device of its parent"
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), file=answers, flush=True)


def _run(job: Mapping[str, object]) -> dict[str, object]:
    """Fork the ranks and wait; those that do not end in time are killed."""
    ranks = _integer(job["ranks"])
    with tempfile.TemporaryDirectory(prefix="streamguard-verify-") as name:
        directory = Path(name)
        running = {_fork(rank, ranks, job, directory): rank for rank in range(ranks)}
        statuses: dict[int, int] = {}
        deadline = time.monotonic() + float(str(job["limit_s"]))
        killed = False
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                statuses[running.pop(pid)] = os.waitstatus_to_exitcode(status)
                continue
            if time.monotonic() > deadline:
                killed = True
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_S)
        return {
            "statuses": [statuses[rank] for rank in range(ranks)],
            "timed_out": killed,
            "results": [_read(directory / f"{rank}.json") for rank in range(ranks)],
            "calls": [_text(directory / f"{rank}.calls") for rank in range(ranks)],
            "logs": [(directory / f"{rank}.log").read_text()[-8000:] for rank in range(ranks)],
        }


def _fork(rank: int, ranks: int, job: Mapping[str, object], directory: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    with (directory / f"{rank}.log").open("w", buffering=1) as log:
        try:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            _be_rank(rank, ranks, job, directory, log)
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc(file=log)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def _be_rank(
    rank: int, ranks: int, job: Mapping[str, object], directory: Path, log: TextIO
) -> None:
    sys.stdout = sys.stderr = log
    if job["logs_calls"]:
        os.environ["STREAMGUARD_VGPU_LOG"] = str(directory / f"{rank}.calls")
    os.environ.update(
        STREAMGUARD_VGPU_SCHEDULE=str(job["schedule"]),
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(ranks),
        LOCAL_WORLD_SIZE=str(ranks),
    )
    import torch
    from torch import distributed

    torch.cuda.set_device(rank)
    distributed.init_process_group(
        "nccl",
        store=distributed.FileStore(str(directory / "store"), ranks),
        rank=rank,
        world_size=ranks,
        device_id=torch.device("cuda", rank),
        timeout=timedelta(seconds=float(str(job["limit_s"]))),
    )
    module, _, function = str(job["program"]).partition(":")
    result = getattr(importlib.import_module(module), function)(rank, ranks, job["argument"])
    torch.cuda.synchronize()
    from streamguard.vgpu import values

    values.raise_pending_error()
    (directory / f"{rank}.json").write_text(json.dumps(result))
    distributed.destroy_process_group()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _read(path: Path) -> object:
    return json.loads(path.read_text()) if path.exists() else None


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value


if __name__ == "__main__":
    main()
