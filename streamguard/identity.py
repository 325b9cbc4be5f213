"""Which rank of which run this process is, from what the launchers put into the environment."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import socket
import sys
import time
from collections.abc import Mapping

from streamguard.config import Config, parse
from streamguard.report.model import RankStart

# In the order of trust: what torch reads itself, then Open MPI, MPICH and Intel MPI, SLURM.
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD_SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_LOCAL_WORLD_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
# Tasks on each node, in the order of the nodes: "4(x2),3" stands for 4, 4, 3.
_TASKS_ON_NODES = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def new_run_id() -> str:
    """An id for a new run: sortable by time, and unguessable enough that two runs never meet."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def run_id_of_step(environ: Mapping[str, str]) -> str | None:
    """The id that all tasks of one `srun` agree on without a word; None outside, or for one task.

    A job that is queued again keeps its numbers, and counts how often it was.
    """
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "")
    tasks = _number(environ, ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")) or 1
    if not job.isalnum() or not step.isalnum() or "SLURM_PROCID" not in environ or tasks == 1:
        return None
    restarts = _number(environ, ("SLURM_RESTART_COUNT",)) or 0
    return f"slurm-{job}.{step}" + (f"-restart{restarts}" if restarts else "")


def _tasks_on_node(environ: Mapping[str, str]) -> int | None:
    """How many tasks of the `srun` step run on this node; None outside of one."""
    node = _number(environ, ("SLURM_NODEID",))
    listed = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE", "")
    if node is None or "SLURM_PROCID" not in environ:
        return None
    counts = [
        int(tasks)
        for tasks, nodes in _TASKS_ON_NODES.findall(listed)
        for _ in range(min(int(nodes or 1), node + 1))
    ]
    return counts[node] if node < len(counts) else None


def host_hash() -> str:
    """A short hash that tells hosts apart without naming them."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


def rank_start(config: Config | None = None) -> RankStart:
    """The start record of this process, as far as it is known by now.

    An initialised default process group is asked first: `torch.multiprocessing.spawn` sets no
    variables.
    """
    config = parse(os.environ) if config is None else config
    rank = _number(os.environ, _RANK)
    world_size = _number(os.environ, _WORLD_SIZE)
    local_rank = _number(os.environ, _LOCAL_RANK)
    group = process_group()
    if group is not None:
        rank, world_size = group
        # Without a launcher all ranks are taken to be on one machine.
        local_rank = rank if local_rank is None else local_rank
    world_size = 1 if world_size is None else max(world_size, 1)
    selected = None if config.ranks is None else tuple(sorted(config.ranks))
    local_world_size = _number(os.environ, _LOCAL_WORLD_SIZE)
    if local_world_size is None and "RANK" not in os.environ:
        local_world_size = _tasks_on_node(os.environ)
    return RankStart(
        run=config.run or "",
        rank=rank or 0,
        world_size=world_size,
        local_rank=local_rank or 0,
        local_world_size=world_size if local_world_size is None else local_world_size,
        host=host_hash(),
        pid=os.getpid(),
        versions=_versions(),
        virtual_devices=config.vgpu_devices,
        schedule=config.vgpu_schedule if config.vgpu_devices is not None else "",
        selected_ranks=selected,
        mode=config.mode,
        attempt=attempt(),
    )


def environment_rank(environ: Mapping[str, str]) -> int:
    """The rank that the launcher gave this process; 0 without a launcher."""
    return _number(environ, _RANK) or 0


def attempt() -> int:
    """How often torchrun has started this job's processes anew; 0 the first time."""
    return _number(os.environ, ("TORCHELASTIC_RESTART_COUNT",)) or 0


def _number(environ: Mapping[str, str], variables: tuple[str, ...]) -> int | None:
    for variable in variables:
        value = environ.get(variable, "")
        if value.isascii() and value.isdecimal():
            return int(value)
    return None


def process_group() -> tuple[int, int] | None:
    """Rank and size of torch's default group; torch is not imported for it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    if not distributed.is_initialized():
        return None
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _versions() -> tuple[tuple[str, str], ...]:
    from streamguard import __version__

    versions = [("streamguard", __version__), ("python", platform.python_version())]
    for name in ("torch", "deepspeed"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions.append((name, str(version)))
    return tuple(versions)
