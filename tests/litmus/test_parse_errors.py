"""Damaged cases: the error names the line and the reason."""

from __future__ import annotations

import pytest

from streamguard.litmus.case import Variant, read_cases
from streamguard.litmus.errors import LitmusError
from streamguard.litmus.statement import parse_statement
from streamguard.litmus.verdict import run_variant

_HEAD = "id: x\nsequence:\n  events:\n"


def error_of(text: str) -> tuple[int, str]:
    """Line and reason of the error that reading or running the text gives."""
    with pytest.raises(LitmusError) as raised:
        for variant in read_cases(text, "case.yaml"):
            run_variant(variant)
    assert str(raised.value).startswith(f"case.yaml:{raised.value.line}: ")
    return raised.value.line, raised.value.reason


@pytest.mark.parametrize(
    ("events", "line", "reason"),
    [
        (["alloc x 8 a", "raed a x 'r'"], 5, "event 2: unknown event 'raed'"),
        (["alloc x 8"], 4, "event 1: 'alloc' takes 3 to 4 words, got 2"),
        (["alloc x eight a"], 4, "the size is 'eight'; expected a number of at most 18 digits"),
        (["alloc x 8 a", "read a y 'r'"], 5, "block 'y' was never allocated"),
        (["alloc x 8 a", "read a x[0:9] 'r'"], 5, "byte 9 is outside 'x', which has 8 bytes"),
        (["alloc x 8 a", "read a x[4:2] 'r'"], 5, "region 'x[4:2]' ends before it begins"),
        (["alloc x 8 a", "read a x[0:8:0/1] 'r'"], 5, "region 'x[0:8:0/1]' has pitch 0"),
        (
            ["alloc x 8 a", "read a x[0:8:9999999999999999999/1] 'r'"],
            5,
            "region 'x[0:8:9999999999999999999/1]' has a number of more than 18 digits",
        ),
        (["alloc x 8 a", "read a x 'r"], 5, 'event 2: a quote is not closed in "read a x \'r"'),
        (["alloc x 8 a", "alloc x 8 a"], 5, "'x' already exists"),
        (["alloc x 8 a", "alloc y 8 a reuse=x"], 5, "reuse=x: 'x' was not freed"),
        (["alloc x 8 a", "free x", "free x"], 6, "'x' is freed already"),
        (["write a x 'w'", "stream_create a blocking"], 4, "block 'x' was never allocated"),
        (["record e a", "stream_create a blocking"], 5, "stream 'a' is declared or used above"),
        (
            ["stream_create a fast"],
            4,
            "stream kind 'fast'; expected blocking, nonblocking, legacy",
        ),
        (["stream_create a blocking dev=1"], 4, "'dev=1' is not understood; expected device=..."),
        (["event_query e=perhaps"], 4, "'e=perhaps': expected e=done or e=notready"),
        (["collective a of=x 'c'"], 4, "'of=x' is not understood; expected in=, out= or comm="),
        (["graph_begin g"], 4, "graph 'g' is not ended"),
        (["graph_end g"], 4, "graph 'g' was not begun"),
        (["graph_launch g a"], 4, "graph 'g' was not captured"),
        (
            ["alloc x 8 a", "graph_begin g", "read cap2 x 'r'"],
            6,
            "'cap2' is used before it waits for an event of the capture",
        ),
        (
            ["alloc x 8 a", "graph_begin g", "wait_stream cap2 cap", "read cap2 x", "graph_end g"],
            8,
            "graph 'g' has a forked stream that 'cap' does not wait for",
        ),
        (
            ["record e a", "graph_begin g", "wait cap e"],
            6,
            "event 'e' is recorded and waited on different sides of a capture",
        ),
        (
            ["graph_begin g", "record e cap", "graph_end g", "wait a e"],
            7,
            "event 'e' is recorded and waited on different sides of a capture",
        ),
        (
            ["graph_begin g", "hostsync cap"],
            5,
            "'hostsync' is not allowed on 'cap' while it captures",
        ),
    ],
)
def test_a_wrong_event_names_its_line_and_the_reason(
    events: list[str], line: int, reason: str
) -> None:
    """Lines are those of the file, from 1."""
    text = _HEAD + "".join('  - "{}"\n'.format(event.replace('"', '\\"')) for event in events)

    assert error_of(text) == (line, reason)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "the file holds no case: expected a mapping"),
        ("- a\n", 1, "the file holds no case: expected a mapping"),
        ("sequence: {}\n", 1, "the case has no id"),
        ("id: x\n", 1, "case x has none of buggy, fixed, sequence"),
        ("id: x\nsequence:\n  events: 3\n", 3, "events is missing or no list of lines"),
        ("id: x\nsequence:\n  events:\n  - 3\n", 4, "event 1 is no text: 3"),
        (
            "id: x\nsequence:\n  events: []\n  expect:\n    verdict: fine\n",
            3,
            "verdict is 'fine', expected race or clean",
        ),
        (
            "id: x\nsequence:\n  events: []\n  expcet: {verdict: race}\n",
            3,
            "sequence has 'expcet'; expected events and expect only",
        ),
        (
            "id: x\nsequence:\n  events: []\n  expect: {race: []}\n",
            3,
            "expect of sequence has 'race'; expected verdict and races only",
        ),
        ("id: x\nfixed: {events: []}\nfixed: {events: []}\n", 3, "'fixed' is given twice"),
        (
            "id: x\nnotes: {a: b}\nbuggy: {events: []}\nfixd: {events: []}\n",
            4,
            "'fixd' has events; a program is called buggy, fixed, sequence",
        ),
        (f"id: 0x{'f' * 5000}\nsequence: {{events: []}}\n", 1, "the case has no id"),
        (
            f"id: x\nsequence: {{events: [0x{'f' * 5000}]}}\n",
            2,
            "event 1 is no text: a number of too many digits",
        ),
        ('{"id": true, "events": []}', 1, 'the object has no "id" or "case"'),
        ('{"id": "x"}', 1, "events is missing or no list of lines"),
        ('{"events": []}', 1, 'the object has no "id" or "case"'),
        ('{"id": "x", "events": []}\n{"id": "y", "events": ["read"]}', 2, "event 1: "),
        ('{"id": "x", "events": [], "races": [["RAW", "device", "a"]]}', 1, "a race has kind, "),
        (
            '{"id": "x", "events": [], "note": "", "race": []}',
            1,
            "'race' is not known; did you mean",
        ),
        ('{"id": "x", "events": [], "races": [["RAR", "device", "a", "b"]]}', 1, "no race of "),
    ],
)
def test_a_damaged_file_names_the_line_and_the_reason(text: str, line: int, reason: str) -> None:
    """YAML and JSON lines."""
    found = error_of(text)

    assert found[0] == line
    assert found[1].startswith(reason)


@pytest.mark.parametrize(
    "end",
    [
        "{events: [*i]}",
        "{events: [], expect: {verdict: *i}}",
        "{events: [], expect: {races: [*i]}}",
        "{events: [], expect: {races: [[RAW, device, *i, b]]}}",
    ],
)
def test_aliases_of_aliases_are_not_written_out(end: str) -> None:
    """A few lines that stand for 10^30 texts are refused with a short message."""
    aliases = ["z0: &z0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 29):
        aliases.append(f"z{level}: &z{level} [{', '.join(10 * [f'*z{level - 1}'])}]")
    aliases.append(f"i: &i [{', '.join(10 * ['*z28'])}]")
    text = "\n".join(["id: x", *aliases, f"sequence: {end}"])

    line, reason = error_of(text)

    # The node that is refused stands where its alias was defined or where it is used.
    assert line in (len(aliases) + 1, len(aliases) + 2)
    assert len(reason) < 200


@pytest.mark.parametrize("text", ["id: [\nx", "a: b: c", "id: &a [*a]", "\t- x", '{"id": ', "{"])
def test_broken_syntax_is_an_error_with_a_line(text: str) -> None:
    """Whatever the parsers below us raise."""
    assert error_of(text)[0] >= 1


def test_any_cut_of_a_case_is_read_or_refused() -> None:
    """Every prefix of a valid case gives variants or a LitmusError, never another error."""
    text = (
        "id: cut\nsequence:\n  events:\n  - alloc x 64 a\n  - write a x[0:64:8/4] 'w'\n"
        "  - '@t read b x ''r'''\n  expect:\n    verdict: race\n    races:\n"
        "    - {kind: RAW, domain: device, first: w, second: r}\n"
    )
    read: list[Variant] = []
    for end in range(len(text) + 1):
        try:
            variants = read_cases(text[:end], "cut.yaml")
            for variant in variants:
                run_variant(variant)
            read += variants
        except LitmusError as error:
            assert error.line >= 1

    assert run_variant(read[-1]).is_as_expected


def test_comments_threads_and_quotes() -> None:
    """A comment ends a line outside quotes; both quotes make labels; words are joined by spaces."""
    statement = parse_statement("""  @io  read  a b[1:2] "it's # one"  # two""", 7)

    assert statement is not None
    assert (statement.thread, statement.verb, statement.words) == ("io", "read", ("a", "b[1:2]"))
    assert (statement.label, statement.text, statement.line) == ("it's # one", "read a b[1:2]", 7)
    assert parse_statement("   # nothing", 1) is None


def test_a_character_that_yaml_does_not_allow() -> None:
    """The YAML reader refuses it before it parses anything; the line is still named."""
    line, reason = error_of("id: x\nsequence:\n  events:\n    - alloc x 8 \0a\n")

    assert line == 4
    assert reason == "no YAML: special characters are not allowed"
