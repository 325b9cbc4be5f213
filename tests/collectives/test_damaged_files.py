"""Files of a rank that are cut, changed or not what their names say end in one clear sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from streamguard.collectives.audit import audit_rank
from streamguard.collectives.audit_text import render, to_json
from streamguard.collectives.desync import judge
from streamguard.collectives.postmortem import report_left_over, rings_of, views_of
from streamguard.collectives.record import names_path, read_log
from streamguard.collectives.verdict_text import render as render_verdict
from streamguard.errors import CallRecordError
from tests.cli.command import streamguard
from tests.collectives.synthetic import CountingStore, SyntheticRank

NAMES = (
    {"kind": "group", "number": 1, "key": "0", "name": "default_pg", "ranks": [0, 1]},
    {"kind": "site", "number": 20, "frames": [["train.py", 20, "step"]]},
    {"kind": "role", "key": "0", "role": "dp"},
    {"kind": "name", "begin": 0x7000, "end": 0x8000, "name": "buffer", "time_ns": 3},
    {"kind": "scheme", "name": "DDP", "ranks": 2, "parameters": 10, "settings": {}},
    {"kind": "unrecorded", "calls": {"ncclSend": 2}},
    {"kind": "untimed", "reason": "none"},
    {"kind": "end", "time": 1.0, "steps": 0},
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two ranks of a job; rank 1 differs in its last call."""
    store = CountingStore()
    for number in range(2):
        rank = SyntheticRank(number, 2, tmp_path, store)
        for call in range(6):
            rank.call(4 + call + (number if call == 5 else 0))
        start = {"kind": "start", "rank": number, "world_size": 2, "pid": number, "run": "job"}
        lines = [start, *({**line, "rank": number} for line in NAMES)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        names_path(rank.ring_path).write_text(text)
    return tmp_path


def _damage(content: bytes, chance: random.Random) -> bytes:
    if content.startswith(b"{") and chance.random() < 0.7:
        lines = [json.loads(line) for line in content.splitlines()]
        line = chance.choice(lines)
        key = chance.choice(list(line))
        line[key] = chance.choice([None, -1, 2**70, "x", [], {}, True, [[]], [1, "2"], 0, 5])
        if chance.random() < 0.3:
            del line[key]
        return "".join(json.dumps(line) + "\n" for line in lines).encode()
    changed = bytearray(content)
    for _ in range(chance.choice([1, 3, 30])):
        changed[chance.randrange(min(len(changed), 2000))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed)


def test_random_damage_is_refused_by_name_or_read(directory: Path) -> None:
    """300 damaged files: whatever reads them answers or raises CallRecordError, nothing else."""
    originals = {path: path.read_bytes() for path in directory.iterdir()}
    refused = 0
    for seed in range(300):
        chance = random.Random(seed)
        path = chance.choice(sorted(originals))
        path.write_bytes(_damage(originals[path], chance))
        try:
            views = views_of(rings_of([directory]))
            render_verdict(judge(views), views)
            audit = audit_rank(read_log(path.with_suffix(".ring")))
            render(audit), to_json(audit)
        except CallRecordError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {path.name}") from error
        report_left_over(directory, "job")
        path.write_bytes(originals[path])

    assert 30 < refused < 300


def test_the_rest_of_a_job_is_compared(directory: Path) -> None:
    """A third rank without names is left out; the difference of the others is reported once."""
    ring = directory / "collectives-2-2.ring"
    ring.write_bytes((directory / "collectives-0-0.ring").read_bytes())
    names_path(ring).write_text("")
    report_left_over(directory, "job")
    report_left_over(directory, "job")
    entries = [json.loads(line) for line in (directory / "desync.jsonl").read_text().splitlines()]

    found = [(e["code"], e["culprits"], e["position"]) for e in entries]
    assert found == [("SG310", [1], 5)]


def test_the_command_says_what_is_damaged(directory: Path, tmp_path: Path) -> None:
    """`streamguard desync` ends with 1 and one sentence with the file's name."""
    names_path(directory / "collectives-1-1.ring").write_text("")
    result = streamguard("desync", str(directory), cwd=tmp_path)

    assert result.returncode == 1
    ring = directory / "collectives-1-1.ring"
    assert result.stderr == (
        f"streamguard desync: {ring}: its names are empty; leave this file out\n"
    )


@pytest.mark.parametrize("line", ["[" * 100_000, '{"kind": "group", "number": 1e400}'])
def test_a_line_that_no_rank_writes_is_refused(line: str, directory: Path) -> None:
    """Python's JSON reader gives up on deep nesting with an error of its own."""
    ring = directory / "collectives-0-0.ring"
    with names_path(ring).open("a") as file:
        file.write(line + "\n")

    with pytest.raises(CallRecordError):
        read_log(ring)


def test_a_ring_without_room_is_refused(directory: Path) -> None:
    """Its header says 0: it would read as a rank that has made no call."""
    ring = directory / "collectives-0-0.ring"
    content = bytearray(ring.read_bytes())
    content[8:16] = bytes(8)
    ring.write_bytes(content)

    with pytest.raises(CallRecordError) as caught:
        read_log(ring)

    assert caught.value.reason == "its ring has room for no call"
