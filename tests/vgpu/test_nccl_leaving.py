"""A rank that has done its part may leave at any moment: what it published counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import RunVgpu

_SOURCE = Path(__file__).with_name("held_look.c")

# Rank 0 waits for rank 1's part, and is held in its look at whether rank 1 lives. Only then rank 1
# does its part, or does not, and ends.
_PROGRAM = """
import os
from raw_cuda import *
from raw_nccl import *
unique_id = new_id()
held, hold = os.pipe()

def part_of_1(comm, data):
    assert os.read(held, 1) == b"\\0"
    {part}

def body(rank):
    set_device(rank)
    comm, data, s = join(unique_id, 2, rank), device_memory(4), new_stream()
    if rank == 1:
        part_of_1(comm, data)
        return
    ctypes.c_int.in_dll(ctypes.CDLL({library!r}), "held_pipe").value = hold
    print(all_reduce(comm, data, s), call("cudaStreamSynchronize", s))

print(run_ranks(2, body))
"""


@pytest.fixture(scope="module")
def held_look(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library that holds a look at a process until the process has ended."""
    library = tmp_path_factory.mktemp("held") / "held_look.so"
    command = ["g++", "-x", "c", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return str(library)


@pytest.mark.parametrize("end", ["leave(comm)", "pass"], ids=["leaves", "only ends"])
def test_a_part_published_just_before_the_end_counts(
    run_vgpu: RunVgpu, held_look: str, end: str
) -> None:
    """Rank 1 publishes and ends while rank 0 looks whether it lives: the collective succeeds."""
    part = f"all_reduce(comm, data, new_stream()); {end}"
    finished = run_vgpu(
        _PROGRAM.format(part=part, library=held_look),
        devices=2,
        environment={"LD_PRELOAD": held_look},
    )

    assert (finished[0].lines, finished[0].errors) == (["0 0", "[0]"], "")


def test_a_part_never_published_fails_the_collective(run_vgpu: RunVgpu, held_look: str) -> None:
    """The same without rank 1's part: rank 0 is told that it ended."""
    finished = run_vgpu(
        _PROGRAM.format(part="pass", library=held_look),
        devices=2,
        environment={"LD_PRELOAD": held_look},
    )

    launch_failure = 719
    assert finished[0].lines == [f"0 {launch_failure}", "[0]"]
    assert "ended, rank 0 waits for it in all_reduce(count=1, float32, sum)" in finished[0].errors
