"""The racy litmus cases as torch programs: what a person would have written, racy and repaired.

Each case is one function; called with True it makes the call that repairs it, and differs in
nothing else. A line whose end is a comment issues the access that the case file gives that label,
so that a detector's frames can be compared with the labels of `tests/data/litmus`.

    from tests.conformance.torch_litmus import CASES
    CASES["trl-7195"].run_racy()      # what it read and wrote, as lists of distinct values
    CASES["trl-7195"].run_repaired()  # is equal to CASES["trl-7195"].right under every schedule

Needs the virtual GPU with values (or a GPU), and torch: import it in a process of its own.
`torch_litmus_cases.py` says, without torch, which cases have no program and why.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from tests.conformance.torch_litmus_cases import PARTS

SIZE = 1024
"""Elements of a block, 4 bytes each."""

Program = Callable[[bool], "Sequence[torch.Tensor]"]


@dataclass(frozen=True, slots=True)
class Case:
    """One litmus case in torch.

    Attributes:
        id: As in the case file.
        right: For each tensor that the program returns, the one value all its elements must have.
        program: Issues everything, waits for nothing at the end; takes whether it is repaired.
        part: Which of the files it is in.
        source: File of the program.
    """

    id: str
    right: tuple[float, ...]
    program: Program
    part: str
    source: str

    def run_racy(self) -> list[list[float]]:
        """Run the racy half; the distinct values of each returned tensor, ascending."""
        return _values(self.program(False))

    def run_repaired(self) -> list[list[float]]:
        """Run the repaired half; the distinct values of each returned tensor, ascending."""
        return _values(self.program(True))

    def is_right(self, values: list[list[float]]) -> bool:
        """Whether a run gave the right bytes."""
        return values == [[value] for value in self.right]


CASES: dict[str, Case] = {}


def case(case_id: str, *right: float) -> Callable[[Program], Program]:
    """Register a program under its case's id, with the values it must give."""

    def register(program: Program) -> Program:
        part = program.__module__.rpartition("_")[2]
        CASES[case_id] = Case(case_id, right, program, part, program.__code__.co_filename)
        return program

    return register


def _values(tensors: Sequence[torch.Tensor]) -> list[list[float]]:
    torch.cuda.synchronize()
    return [sorted(set(tensor.flatten().tolist())) for tensor in tensors]


# What the programs share --------------------------------------------------------------------------


def device_block(value: float = 0.0, *, blocks: int = 1) -> torch.Tensor:
    """A block of the current stream, filled and complete."""
    block = torch.full((blocks * SIZE,), value, device="cuda")
    torch.cuda.synchronize()
    return block


def pinned_block(value: float = 0.0, *, blocks: int = 1) -> torch.Tensor:
    """Page-locked memory, filled."""
    return torch.full((blocks * SIZE,), value, pin_memory=True)


def on(stream: torch.cuda.Stream) -> torch.cuda.StreamContext:
    """Make a stream current."""
    return torch.cuda.stream(stream)


def default_stream() -> torch.cuda.Stream:
    """The legacy default stream."""
    return torch.cuda.default_stream()


def require_reuse(block: torch.Tensor, address: int) -> None:
    """Check that the allocator gave a block out again, without which the case would not be one."""
    if block.data_ptr() != address:
        raise AssertionError(f"the allocator gave {block.data_ptr():#x}, not {address:#x} again")


for _part in PARTS:
    importlib.import_module(f"tests.conformance.torch_litmus_{_part}")
