"""Feed damaged litmus files to the reader: an error with its position, never another exception.

    tools/fuzz_litmus.py [--inputs 1000000] [--seed SEED] [--seconds LIMIT]

Each input is a case of tests/data/litmus or a random program, damaged in a few places; it is read
and, when it can be read, run. `--seed` with `--inputs 1` replays the input that a failure names.
"""

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from streamguard.litmus.case import read_cases  # noqa: E402
from streamguard.litmus.errors import LitmusError  # noqa: E402
from streamguard.litmus.verdict import run_variant  # noqa: E402
from tests.litmus.random_programs import random_program  # noqa: E402

HANGS_AFTER_S = 10
JUNK = (
    *("'", '"', "[", "]", ":", "/", "+", "@", "=", "-", "{", "}", "#", "\\", "\t", "\n", "\0", "é"),
    *("0", "1", "-1", "999999999999999999", "18446744073709551616", "reuse=", "in=", "comm=", "s0"),
    *("cap", "alloc", "free", "read", "rw", "wait", "graph_begin g", "graph_end g", "x[0:8:2/1]"),
)


def as_yaml(lines: list[str]) -> str:
    return "id: x\nsequence:\n  events:\n" + "".join(f"    - {line!r}\n" for line in lines)


def replace_word(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    words[chance.randrange(len(words))] = chance.choice((*JUNK, *words))
    return " ".join(words)


def insert_junk(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice(JUNK) + text[at:]


def delete_run(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + text[at + chance.randrange(1, 12) :]


def repeat_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return "\n".join(lines)


def cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) + 1)]


DAMAGES: tuple[Callable[[str, random.Random], str], ...] = (
    *(replace_word, replace_word, replace_word, insert_junk, insert_junk),
    *(delete_run, repeat_line, repeat_line, cut),
)


def damaged(text: str, chance: random.Random) -> str:
    for _ in range(chance.randrange(1, 5)):
        text = chance.choice(DAMAGES)(text, chance)
    return text


def damaged_input(seed: int, cases: list[str], programs: list[list[str]]) -> str:
    chance = random.Random(seed)
    kind = chance.random()
    if kind < 0.01:  # a hundred times as slow as JSON
        return damaged(chance.choice(cases), chance)
    lines = chance.choice(programs)
    if kind < 0.03:
        return damaged(as_yaml(lines), chance)
    if kind < 0.1:
        return damaged(json.dumps({"id": "x", "events": lines}), chance)
    return json.dumps({"id": "x", "events": damaged("\n".join(lines), chance).split("\n")})


def check(text: str) -> bool:
    """Return whether the text could be read and run; raise when an error has no position."""
    try:
        for variant in read_cases(text, "fuzz.yaml"):
            run_variant(variant)
    except LitmusError as error:
        if not 1 <= error.line <= text.count("\n") + 1:
            raise AssertionError(f"line {error.line} is not in the file") from error
        return False
    return True


def give_up(signal_number: int, frame: object) -> None:
    raise TimeoutError(f"no end after {HANGS_AFTER_S} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 40))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    print(f"first seed: {options.seed}", flush=True)
    cases = [path.read_text() for path in sorted((ROOT / "tests/data/litmus").glob("*.yaml"))]
    programs = [random_program(seed) for seed in range(1000)]
    signal.signal(signal.SIGALRM, give_up)
    end = time.monotonic() + options.seconds
    ran = done = 0
    for index in range(options.inputs):
        if time.monotonic() > end:
            break
        text = damaged_input(options.seed + index, cases, programs)
        signal.alarm(HANGS_AFTER_S)
        try:
            ran += check(text)
        except Exception as error:
            print(f"{text}\nseed {options.seed + index}: {type(error).__name__}: {error}")
            return 1
        signal.alarm(0)
        done += 1
    print(f"{done} inputs, {ran} of them could be run; the others were errors with a line")
    return 0


if __name__ == "__main__":
    sys.exit(main())
