"""One ordered and one unordered program for each rule of docs/happens_before.md.

A line that begins with `+` is only in the ordered twin, one with `-` only in the racing one.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from streamguard.litmus.program import Program
from streamguard.litmus.statement import parse_statement


@dataclass(frozen=True)
class Rule:
    """A program and the races of the twin without the order."""

    name: str
    program: str
    races: frozenset[tuple[str, str, str, str]]


def rule(name: str, program: str, *races: tuple[str, str, str, str]) -> Rule:
    """Describe one pair of twins."""
    return Rule(name, program, frozenset(races))


_RAW = ("RAW", "device", "w", "r")
_WAR = ("WAR", "device", "r", "w")
_HOST_RAW = ("RAW", "host", "w", "r")

_RULES = [
    rule(
        "HB-01 stream order", "alloc x 8 a\n write a x 'w'\n + read a x 'r'\n - read b x 'r'", _RAW
    ),
    rule(
        "HB-01 an alias is the same stream",
        "+ stream_alias b a\n alloc x 8 a\n write a x 'w'\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-02 program order of a host thread",
        "alloc x 8 a\n + hostwrite x 'w'\n - @t hostwrite x 'w'\n read a x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-02 a record is issued after the host's accesses",
        "alloc_pinned x 8\n hostwrite x 'w'\n + record e a\n @t wait b e\n @t read b x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-03 a wait takes the newest record issued before it",
        "alloc x 8 a\n - record e a\n write a x 'w'\n + record e a\n wait b e\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-03 a re-record replaces the event for later waits",
        "alloc x 8 a\n write a x 'w'\n record e a\n - record e c\n wait b e\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-03 a record after the wait does not reach it",
        "alloc x 8 a\n write a x 'w'\n + record e a\n wait b e\n - record e a\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-03 waits are transitive through streams without work",
        "alloc x 8 a\n write a x 'w'\n wait_stream c a\n + wait_stream b c\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-03 an edge does not order what follows the record",
        "alloc x 8 a\n + write a x 'w'\n wait_stream b a\n - write a x 'w'\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-04 stream wait",
        "alloc x 8 a\n write a x 'w'\n + hostsync a\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-04 a wait for another stream is none",
        "alloc x 8 a\n write a x 'w'\n - hostsync b\n + hostsync a\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-04 event wait",
        "alloc x 8 a\n write a x 'w'\n record e a\n + event_sync e\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-04 device wait is per device",
        "stream_create p nonblocking device=1\n alloc x 8 p\n write p x 'w'\n"
        "- device_sync\n + device_sync 1\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-04 a query that says done orders",
        "alloc x 8 a\n write a x 'w'\n record e a\n"
        "+ event_query e=done\n - event_query e=notready\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-04 the wait is the waiting thread's",
        "alloc x 8 a\n write a x 'w'\n - @t hostsync a\n + hostsync a\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-05 the legacy stream waits for blocking streams",
        "+ stream_create b blocking\n alloc x 8 b\n write b x 'w'\n read s0 x 'r'",
        _RAW,
    ),
    rule(
        "HB-05 blocking streams wait for the legacy stream",
        "+ stream_create b blocking\n alloc x 8 b\n write s0 x 'w'\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-05 two blocking streams meet through a legacy record",
        "stream_create b blocking\n stream_create c blocking\n alloc x 8 b\n write b x 'w'\n"
        "+ record e s0\n - record e n\n read c x 'r'",
        _RAW,
    ),
    rule(
        "HB-05 a fence stays on its device",
        "- stream_create b blocking device=1\n + stream_create b blocking\n alloc x 8 b\n"
        "write b x 'w'\n read s0 x 'r'",
        _RAW,
    ),
    rule(
        "HB-05 a wait for a never recorded event fences nothing",
        "stream_create b blocking\n stream_create c blocking\n alloc x 8 b\n write b x 'w'\n"
        "+ record e n\n wait s0 e\n read c x 'r'",
        _RAW,
    ),
    rule(
        "HB-05 a host wait for the legacy stream covers blocking streams",
        "+ stream_create b blocking\n - stream_create b nonblocking\n alloc x 8 b\n"
        "write b x 'w'\n hostsync s0\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-05 a host wait for a blocking stream does not cover the legacy stream",
        "stream_create b blocking\n alloc x 8 s0\n write s0 x 'w'\n"
        "- hostsync b\n + hostsync s0\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-06 messages",
        "alloc_pinned x 8\n hostwrite x 'w'\n + post k\n @t take k\n @t hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-06 a message does not cover what follows it",
        "alloc_pinned x 8\n + hostwrite x 'w'\n post k\n - hostwrite x 'w'\n"
        "@t take k\n @t hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-06 a take is after the newest post",
        "alloc_pinned x 8\n @t hostwrite x 'w'\n + @u post k\n @t post k\n - @u post k\n"
        "take k\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-07 record_stream holds a block back",
        "alloc x 8 a\n read b x 'r'\n + record_stream x b\n free x\n"
        "alloc y 8 a reuse=x\n write a y 'w'",
        ("WAR", "reuse", "r", "w"),
    ),
    rule(
        "HB-07 record_stream of another stream",
        "alloc x 8 a\n read b x 'r'\n + record_stream x b\n - record_stream x c\n free x\n"
        "alloc y 8 a reuse=x\n write a y 'w'",
        ("WAR", "reuse", "r", "w"),
    ),
    rule(
        "HB-07 record_stream of the owner does nothing",
        "alloc x 8 a\n read a x 'r'\n record_stream x a\n free x\n"
        "alloc y 8 b reuse=x\n + wait_stream b a\n write b y 'w'",
        ("WAR", "reuse", "r", "w"),
    ),
    rule(
        "HB-07 only a reuse waits",
        "alloc x 8 a\n alloc z 8 a\n read b z 'r'\n record_stream x b\n free x\n"
        "+ alloc y 8 a reuse=x\n - alloc y 8 a\n write a z 'w'",
        _WAR,
    ),
    rule(
        "HB-07 a part of a block is a reuse too",
        "alloc x 16 a\n read b x 'r'\n + record_stream x b\n free x\n"
        "alloc y 4 a reuse=x+8\n write a y 'w'",
        ("WAR", "reuse", "r", "w"),
    ),
    rule(
        "HB-07 an event covers the work before the free",
        "alloc x 16 a\n record_stream x b\n + read b x 'r'\n free x\n - read b x[8:16] 'r'\n"
        "alloc y 16 a reuse=x\n write a y 'w'",
        ("WAR", "reuse", "r", "w"),
        ("UAF", "lifetime", "free x", "r"),
    ),
    rule(
        "HB-07 pinned memory",
        "alloc_pinned x 8\n alloc d 8 a\n copy a d x 'r'\n + record_stream x a\n free x\n"
        "alloc_pinned y 8 reuse=x\n hostwrite y 'w'",
        ("WAR", "reuse", "r", "w"),
    ),
    rule(
        "HB-07 cudaFree waits for the device",
        "alloc x 8 a\n read b x 'r'\n + free_sync x\n - free x\n"
        "alloc y 8 a reuse=x\n write a y 'w'",
        ("WAR", "reuse", "r", "w"),
    ),
    rule(
        "HB-08 launches of one graph are serialised",
        "alloc x 8 a\n graph_begin g\n rw cap x 'w'\n graph_end g\n"
        "- graph_begin h\n - rw cap x 'w2'\n - graph_end h\n"
        "graph_launch g a\n + graph_launch g b\n - graph_launch h b",
        ("WAW", "device", "w", "w2"),
    ),
    rule(
        "HB-08 branches of one graph",
        "alloc x 8 a\n graph_begin g\n wait_stream cap2 cap\n write cap x 'w'\n"
        "+ wait_stream cap2 cap\n read cap2 x 'r'\n wait_stream cap cap2\n graph_end g\n"
        "graph_launch g a",
        _RAW,
    ),
    rule(
        "HB-08 a graph runs after its stream and before what follows",
        "alloc x 8 a\n graph_begin g\n wait_stream cap2 cap\n read cap2 x 'r'\n"
        "wait_stream cap cap2\n graph_end g\n + graph_launch g a\n - graph_launch g b\n"
        "write a x 'w'",
        _WAR,
    ),
    rule(
        "HB-08 capturing runs nothing",
        "alloc x 8 a\n graph_begin g\n read cap x 'r'\n graph_end g\n"
        "- graph_launch g b\n write a x 'w'",
        _WAR,
    ),
    rule(
        "HB-10 a pageable source is read when the call returns",
        "+ alloc_pageable x 8\n - alloc_pinned x 8\n alloc d 8 a\n copy a d x 'r'\nhostwrite x 'w'",
        ("WAR", "host", "r", "w"),
    ),
    rule(
        "HB-10 the device write of a pageable copy still runs",
        "alloc_pageable p 8\n alloc x 8 a\n copy a x p 'w'\n + hostsync a\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-10 the host waits for a pageable destination",
        "alloc x 8 a\n + alloc_pageable p 8\n - alloc_pinned p 8\n copy a p x 'w'\n hostread p 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-10 a synchronous pageable copy first waits for the stream",
        "alloc_pageable p 8\n alloc x 8 a\n alloc y 8 a\n write a x 'w'\n"
        "+ copy_sync a y p 'c'\n - copy a y p 'c'\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-11 a synchronous copy to the host waits",
        "alloc x 8 a\n alloc_pinned p 8\n + copy_sync a p x 'w'\n - copy a p x 'w'\nhostread p 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-11 a synchronous copy from pinned memory waits",
        "alloc x 8 a\n alloc_pinned p 8\n + copy_sync a x p 'w'\n - copy a x p 'w'\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-11 a synchronous device-to-device copy does not wait",
        "alloc x 8 a\n alloc y 8 a\n copy_sync a x y 'w'\n + hostsync a\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-11 a host-to-host copy is finished at return",
        "alloc_pinned p 8\n + alloc_pinned x 8\n - alloc x 8 a\n copy a x p 'w'\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-12 memset of device memory does not wait",
        "alloc x 8 a\n memset_sync a x 'w'\n + hostsync a\n read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-12 memset of pinned memory waits",
        "alloc_pinned x 8\n + memset_sync a x 'w'\n - memset a x 'w'\n hostread x 'r'",
        _HOST_RAW,
    ),
    rule(
        "HB-13 a graph touches the block it was captured with",
        "alloc x 8 a\n graph_begin g\n read cap x 'r'\n graph_end g\n - free x\n graph_launch g a",
        ("UAF", "lifetime", "free x", "r"),
    ),
    rule(
        "HB-13 any access after the free",
        "alloc x 8 a\n - free_sync x\n read a x 'r'",
        ("UAF", "lifetime", "free_sync x", "r"),
    ),
    rule(
        "HB-14 views of one storage",
        "alloc s 16 a\n view x s[0:8]\n + view y s[8:16]\n - view y s[7:16]\n"
        "write a x 'w'\n read b y 'r'",
        _RAW,
    ),
    rule(
        "HB-14 rows that interleave",
        "alloc s 64 a\n write a s[0:64:8/4] 'w'\n + read b s[4:64:8/4] 'r'\n"
        "- read b s[3:64:8/4] 'r'",
        _RAW,
    ),
    rule(
        "HB-14 rows of unlike pitch",
        "alloc s 60 a\n write a s[0:60:6/1] 'w'\n + read b s[1:60:9/2] 'r'\n"
        "- read b s[1:60:10/2] 'r'",
        _RAW,
    ),
    rule(
        "HB-14 rows over cells that an earlier access has cut",
        "alloc s 16 a\n write a s[0:4] 'old'\n hostsync a\n write b s[0:12:8/4] 'w'\n"
        "+ read c s[4:8] 'r'\n - read c s[4:9] 'r'",
        _RAW,
    ),
    rule(
        "HB-14 an empty region",
        "alloc x 8 a\n write a x 'w'\n + read b x[5:5] 'r'\n - read b x 'r'",
        _RAW,
    ),
    rule(
        "HB-14 two reads",
        "alloc x 8 a\n read a x 'w'\n read b x 'q'\n - write a x 'r'",
        ("WAR", "device", "q", "r"),
    ),
    rule(
        "HB-14 what one op reads and writes counts as written",
        "alloc x 8 a\n collective a in=x[0:4] out=x[0:4] 'c'\n + hostsync a\n write b x 'w'",
        ("WAW", "device", "c", "w"),
    ),
    rule(
        "HB-14 what one op only reads counts as read",
        "alloc x 8 a\n collective a in=x out=x[0:4] 'c'\n + hostsync a\n write b x 'w'",
        ("WAW", "device", "c", "w"),
        ("WAR", "device", "c", "w"),
    ),
]


def twin(program: str, keep: str) -> list[str]:
    """The lines of one twin."""
    lines = [line.strip() for line in program.split("\n")]
    return [line.lstrip("+- ") for line in lines if line[0] not in "+-" or line[0] == keep]


def races_of(lines: list[str]) -> set[tuple[str, str, str, str]]:
    """Run a program."""
    statements = [parse_statement(line, number) for number, line in enumerate(lines, start=1)]
    program = Program([statement for statement in statements if statement is not None])
    program.run()
    return {tuple(race.pair) for race in program.take_races()}


@pytest.mark.parametrize("case", _RULES, ids=lambda case: case.name)
def test_rule_orders_one_twin_and_not_the_other(case: Rule) -> None:
    """The twin with the rule's order is clean; the other has exactly the stated races."""
    assert races_of(twin(case.program, "+")) == set()
    assert races_of(twin(case.program, "-")) == case.races


def test_pairs_ordered_only_by_a_communicator_are_listed_and_no_races() -> None:
    """HB-09: one communicator's collectives on two streams; without it they race."""
    lines = ["alloc x 8 a", "collective a comm=c out=x 'first'", "collective b comm=c out=x 'next'"]
    statements = [parse_statement(line, number) for number, line in enumerate(lines, start=1)]
    program = Program([statement for statement in statements if statement is not None])

    program.run()

    expected = ("WAW", "device", "first", "next")
    assert program.take_races() == []
    assert [tuple(race.pair) for race in program.take_ordered_by_nccl()] == [expected]
    assert races_of([line.replace("comm=c ", "") for line in lines]) == {expected}


def test_communicator_order_is_transitive_but_still_no_guarantee() -> None:
    """HB-09: work after a collective is only ordered by NCCL with work before an earlier one."""
    lines = [
        "alloc x 8 a",
        "alloc y 8 a",
        "write a x 'w'",
        "collective a comm=c in=y 'first'",
        "collective b comm=c in=y 'next'",
        "read b x 'r'",
    ]
    statements = [parse_statement(line, number) for number, line in enumerate(lines, start=1)]
    program = Program([statement for statement in statements if statement is not None])

    program.run()

    assert program.take_races() == []
    assert [tuple(race.pair) for race in program.take_ordered_by_nccl()] == [_RAW]
    assert races_of(
        [line.replace("comm=c", "comm=d") if "next" in line else line for line in lines]
    ) == {_RAW}
