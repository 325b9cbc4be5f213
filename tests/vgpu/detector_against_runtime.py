"""Random programs: the engine's verdict against what the virtual GPU's schedules do to the bytes.

`python -m tests.vgpu.detector_against_runtime SEED COUNT` runs the programs of COUNT seeds and
prints one JSON line: how many were racy, how many schedules ran, and every disagreement with its
program. Each schedule runs in a fork, so that all start from the same state. A third argument,
`engine` or `runtime`, hides the waits from that side, as a control: disagreements must follow.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

from streamguard.litmus.program import Program
from streamguard.litmus.statement import Statement, parse_statement
from streamguard.vgpu.load import load
from tests.vgpu.random_stream_programs import random_stream_program


def parsed(lines: list[str]) -> list[Statement]:
    """Parse a program's lines."""
    statements = [parse_statement(text, number) for number, text in enumerate(lines, start=1)]
    return [statement for statement in statements if statement is not None]


def races_of(program: list[Statement]) -> list[str]:
    """The engine's verdict: one text for each race."""
    run = Program(program)
    run.run()
    return [str(race.pair) for race in run.take_races()]


def outcome_under(schedule: str, program: list[Statement]) -> tuple[str, int]:
    """Run a program in a fork; its digest, and how many streams it used."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ["STREAMGUARD_VGPU_SCHEDULE"] = schedule
            from tests.vgpu.litmus_on_runtime import Run

            run = Run()
            run.run(program)
            streams = ctypes.CDLL(None).streamguard_vgpu_stream_count()
            os.write(writing, f"{run.digest()} {streams}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError(f"under {schedule} the program ended with wait status {status}")
    digest, streams_used = text.split()
    return digest, int(streams_used)


def outcomes_of(program: list[Statement]) -> dict[str, str]:
    """Digest by schedule: eager, lazy, and each stream early with each other one late."""
    digests = {"eager": outcome_under("eager", program)[0]}
    digests["lazy"], streams = outcome_under("lazy", program)
    for early in range(streams):
        for late in range(streams):
            if early != late:
                token = f"extreme:{early},{late}"
                digests[token] = outcome_under(token, program)[0]
    return digests


def without_waits(program: list[Statement]) -> list[Statement]:
    """The program without the order between its streams."""
    return [statement for statement in program if statement.verb not in ("wait", "wait_stream")]


def main(first_seed: int, count: int, *, control: str = "") -> None:
    """Compare the programs of `count` seeds."""
    load(2)
    # Loaded once here, used in the forks only: the virtual GPU starts at its first call.
    import tests.vgpu.litmus_on_runtime  # noqa: F401

    racy, schedules, disagreements = 0, 0, []
    for seed in range(first_seed, first_seed + count):
        lines = random_stream_program(seed)
        program = parsed(lines)
        races = races_of(without_waits(program) if control == "engine" else program)
        digests = outcomes_of(without_waits(program) if control == "runtime" else program)
        racy += bool(races)
        schedules += len(digests)
        if bool(races) != (len(set(digests.values())) > 1):
            found = {"seed": seed, "races": races, "outcomes": digests, "program": lines}
            disagreements.append(found)
    print(json.dumps({"racy": racy, "schedules": schedules, "disagreements": disagreements}))


if __name__ == "__main__":
    seed_text, count_text, *rest = sys.argv[1:]
    main(int(seed_text), int(count_text), control="".join(rest))
