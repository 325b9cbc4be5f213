"""Feed damaged litmus files to the reader: an error with its position, never another exception.

    tools/fuzz_litmus.py [--inputs 1000000] [--replay FILE]

Inputs begin as cases of tests/data/litmus and random programs, are damaged in a few places, and
those that reach new code are damaged further; one that can be read is run.
"""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import atheris  # noqa: E402
from atheris_target import fuzz  # noqa: E402

with atheris.instrument_imports(include=["streamguard.litmus"], enable_loader_override=False):
    from streamguard.litmus.case import read_cases
    from streamguard.litmus.errors import LitmusError
    from streamguard.litmus.verdict import run_variant

from tests.litmus.random_programs import random_program  # noqa: E402

MOST_BYTES = 1 << 13
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


def mutate(data: bytes, most_bytes: int, seed: int) -> bytes:
    """Damage what there is, or now and then begin anew."""
    chance = random.Random(seed)
    if chance.random() < 0.5:
        text = damaged_input(seed, CASES, PROGRAMS)
    else:
        text = damaged(data.decode("utf-8", "replace"), chance)
    # A cut at the end may split a character; the reader takes text.
    return text.encode()[:most_bytes].decode("utf-8", "ignore").encode()


def check_bytes(data: bytes) -> None:
    check(data.decode("utf-8", "replace"))


def seeds() -> list[bytes]:
    lines = [json.dumps({"id": "x", "events": program}) for program in PROGRAMS[:50]]
    return [text.encode() for text in (*CASES[::10], *lines)]


CASES = [path.read_text() for path in sorted((ROOT / "tests/data/litmus").glob("*.yaml"))]
PROGRAMS = [random_program(seed) for seed in range(1000)]

if __name__ == "__main__":
    fuzz("litmus", check_bytes, mutate, seeds(), most_bytes=MOST_BYTES)
