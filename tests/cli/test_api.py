"""streamguard from inside a program: `watch`, `findings`, `step`, names and listed accesses."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import clean_environment, run

PREFIX = """
import json
import sys

import torch

import streamguard
from streamguard import session

side_stream = torch.cuda.Stream()
values = torch.zeros(16, device="cuda")
torch.cuda.synchronize()


def race():
    with torch.cuda.stream(side_stream):
        values.add_(1)
    values.mul(2)
    torch.cuda.synchronize()


def counts(findings):
    return [(finding.code, finding.count, finding.step) for finding in findings]


"""


def _run(directory: Path, body: str, **variables: str) -> object:
    """Run a program; its last line of output is JSON."""
    (directory / "program.py").write_text(PREFIX + body)
    environ = clean_environment(STREAMGUARD_VGPU="1", **variables)
    result = run("python", "program.py", cwd=directory, environ=environ)

    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_only_what_happens_inside_is_found(tmp_path: Path) -> None:
    """Before and after the block nothing is watched; the result stays readable."""
    body = """
race()
with streamguard.watch() as first:
    torch.ones(2, device="cuda").add_(1)
race()
with streamguard.watch() as second:
    race()
    inside = counts(streamguard.findings())
race()
print(json.dumps([
    counts(first.findings()), inside, counts(second.findings()), second.report().status,
    counts(streamguard.findings()),
]))
"""
    race = ["SG001", 1, None]

    assert _run(tmp_path, body) == [[], [race], [race], "races", []]


def test_a_session_inside_another_sees_its_own_time(tmp_path: Path) -> None:
    """The inner one counts what happened in it, the outer one everything."""
    body = """
def twice():
    for _ in range(2):
        race()

with streamguard.watch() as outer:
    for inner in (streamguard.Session(), streamguard.Session()):
        with inner:
            twice()
    inner_ops = inner.coverage().ops
print(json.dumps([
    [count for _, count, _ in counts(inner.findings())],
    [count for _, count, _ in counts(outer.findings())],
    [inner_ops, outer.coverage().ops],
]))
"""

    assert _run(tmp_path, body) == [[2], [4], [4, 8]]


def test_steps_are_marked(tmp_path: Path) -> None:
    """A finding says in which step it was first seen: `step()` ends the one before."""
    body = """
with streamguard.watch() as watching:
    streamguard.step()
    streamguard.step()
    race()
with streamguard.watch() as unmarked:
    race()
with streamguard.watch() as marked_again:
    streamguard.step()
    race()
results = [watching, unmarked, marked_again]
print(json.dumps([counts(item.findings()) for item in results]))
"""

    assert _run(tmp_path, body) == [[["SG001", 1, step]] for step in (2, None, 1)]


def test_named_bytes_streams_and_listed_accesses(tmp_path: Path) -> None:
    """Names are in the finding; regions whose name or alias matches a pattern are listed."""
    body = """
with streamguard.watch(accesses=["ipg_buffer[*]"]) as watching:
    session.name_stream(0, side_stream.cuda_stream, "reduction_stream")
    begin = values.data_ptr()
    session.name_region(begin, begin + 64, "bucket.buffer[0]", aliases=("ipg_buffer[0]",))
    with torch.cuda.stream(side_stream):
        values.add_(1)
    torch.cuda.current_stream().wait_stream(side_stream)
    values.mul(2)
    with torch.cuda.stream(side_stream):
        values.add_(1)
(race,) = watching.findings()
print(json.dumps([
    [race.code, race.first.names[0].name, race.second.stream.name],
    [(item.name, item.kind, item.op, item.stream, item.begin, item.end,
      [earlier.op for earlier in item.ordered_after]) for item in watching.accesses()],
]))
"""
    found, listed = _run(tmp_path, body)  # type: ignore[misc]  # a pair, by the program above

    assert found == ["SG002", "bucket.buffer[0]", "reduction_stream"]
    names = [row[:6] for row in listed]
    stream = "reduction_stream"
    assert ["bucket.buffer[0]", "write", "aten::add_", stream, 0, 64] in names
    assert ["bucket.buffer[0]", "read", "aten::mul", "default stream (device 0)", 0, 64] in names


def test_names_outlive_the_memory_they_stand_for(tmp_path: Path) -> None:
    """A finding is named when it is made or right after it, not when it is printed."""
    body = """
def race_on(block, name):
    with torch.cuda.stream(side_stream):
        block.add_(1)
    block.mul_(2)
    session.name_region(block.data_ptr(), block.data_ptr() + 1024, name, since_op=0)
    torch.cuda.synchronize()

with streamguard.watch() as watching:
    block = torch.zeros(256, device="cuda")
    torch.cuda.synchronize()
    race_on(block, "bucket")
    for use in range(20):
        # The table of names remembers the newest few of each byte.
        block.mul_(1)
        session.name_region(block.data_ptr(), block.data_ptr() + 1024, f"use {use}")
    del block
    torch.cuda.empty_cache()
(race,) = watching.findings()
print(json.dumps([item.name for item in (*race.first.names, *race.second.names)]))
"""

    assert _run(tmp_path, body) == ["bucket", "bucket"]


def test_an_annotator_adds_what_it_knows(tmp_path: Path) -> None:
    """Its fields become part of the finding; after undo they do not."""
    body = """
known = {"id": "x-1", "title": "known", "upstream": ["PR 1"]}
undo = session.add_annotator(lambda raw: {"known": known} if raw["code"] == "SG001" else {})
with streamguard.watch() as watching:
    race()
(before,) = watching.findings()
undo()
with streamguard.watch() as watching:
    race()
(after,) = watching.findings()
print(json.dumps([before.known.id, after.known]))
"""

    assert _run(tmp_path, body) == ["x-1", None]


def test_wrong_order_is_refused(tmp_path: Path) -> None:
    """Sessions are opened once and closed from the inside; without one nothing is named."""
    body = """
errors = []
def refused(call):
    try:
        call()
    except streamguard.UsageError:
        errors.append(True)

session.name_region(0, 8, "nothing")
outer, inner = streamguard.Session(), streamguard.Session()
refused(outer.findings)
outer.start()
refused(outer.start)
inner.start()
refused(outer.stop)
inner.stop()
outer.stop()
outer.stop()
print(json.dumps([errors, session.current() is None]))
"""

    assert _run(tmp_path, body) == [[True, True, True], True]
