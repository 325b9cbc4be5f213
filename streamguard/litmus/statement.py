"""One event line of the notation, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamguard.litmus.errors import StatementError

_TOKEN = re.compile(r"""'([^']*)'|"([^"]*)"|([^\s'"]+)""")
_COMMENT = re.compile(r"""^((?:[^'"#]|'[^']*'|"[^"]*")*)#.*$""", re.DOTALL)
_REGION = re.compile(r"^([^\[\]=+]+)(?:\[(\d+):(\d+)(?::(\d+)/(\d+))?\])?$")
_NAME = re.compile(r"^[^\[\]=+:]+$")

# Verb -> fewest and most words after it, label not counted.
_WORDS = {
    "stream_create": (2, 3),
    "stream_alias": (2, 2),
    "alloc": (3, 4),
    "alloc_pinned": (2, 3),
    "alloc_pageable": (2, 3),
    "view": (2, 2),
    "record_stream": (2, 2),
    "free": (1, 1),
    "free_sync": (1, 1),
    "read": (2, 2),
    "write": (2, 2),
    "rw": (2, 2),
    "copy": (3, 3),
    "copy_sync": (3, 3),
    "memset": (2, 2),
    "memset_sync": (2, 2),
    "collective": (1, 64),
    "record": (2, 2),
    "wait": (2, 2),
    "wait_stream": (2, 2),
    "graph_begin": (1, 1),
    "graph_end": (1, 1),
    "graph_launch": (2, 2),
    "hostread": (1, 1),
    "hostwrite": (1, 1),
    "hostsync": (1, 1),
    "event_sync": (1, 1),
    "device_sync": (0, 1),
    "event_query": (1, 1),
    "post": (1, 1),
    "take": (1, 1),
}
_LABELLED = {
    *("read", "write", "rw", "copy", "copy_sync", "memset", "memset_sync", "collective"),
    *("hostread", "hostwrite"),
}


@dataclass(frozen=True, slots=True)
class RegionText:
    """A region as written: block or view name, and the bytes of it."""

    name: str
    begin: int | None = None
    end: int | None = None
    pitch: int | None = None
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One event line.

    `text` is the line without thread, comment and label, words separated by one space: it names
    the event where it has no label.
    """

    line: int
    thread: str
    verb: str
    words: tuple[str, ...]
    label: str
    text: str


def parse_statement(line_text: str, line: int) -> Statement | None:
    """Take one event line apart; nothing for a blank line or a comment.

    Raises:
        StatementError: unknown verb, wrong number of words, or an open quote.
    """
    comment = _COMMENT.match(line_text)
    words, labels = _split(comment.group(1) if comment else line_text, line)
    thread = "main"
    if words and words[0].startswith("@"):
        thread = words.pop(0)[1:]
        if not thread or not words:
            raise StatementError(line, f"no thread name or no event in {line_text.strip()!r}")
    if not words:
        if labels:
            raise StatementError(line, f"a label without an event: {line_text.strip()!r}")
        return None
    verb, *rest = words
    if verb not in _WORDS:
        raise StatementError(line, f"unknown event {verb!r}")
    fewest, most = _WORDS[verb]
    if not fewest <= len(rest) <= most:
        expected = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise StatementError(line, f"{verb!r} takes {expected} words, got {len(rest)}")
    if labels and verb not in _LABELLED:
        raise StatementError(line, f"{verb!r} takes no label, got {labels[0]!r}")
    if len(labels) > 1:
        raise StatementError(line, f"more than one label: {labels}")
    text = " ".join(words)
    return Statement(line, thread, verb, tuple(rest), labels[0] if labels else text, text)


def _split(text: str, line: int) -> tuple[list[str], list[str]]:
    words: list[str] = []
    labels: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        token = _TOKEN.match(text, at)
        if token is None:
            raise StatementError(line, f"a quote is not closed in {text.strip()!r}")
        single, double, word = token.groups()
        if word is not None:
            words.append(word)
        else:
            labels.append(single if single is not None else double)
        at = token.end()
    return words, labels


def parse_region(text: str, line: int) -> RegionText:
    """Read `b`, `b[lo:hi]` or `b[lo:hi:pitch/width]`."""
    match = _REGION.match(text)
    if match is None:
        raise StatementError(
            line, f"{text!r} is no region; expected b, b[lo:hi] or b[lo:hi:pitch/width]"
        )
    name, *numbers = match.groups()
    if any(number is not None and len(number) > 18 for number in numbers):
        raise StatementError(line, f"region {text!r:.60} has a number of more than 18 digits")
    begin, end, pitch, width = (None if number is None else int(number) for number in numbers)
    if begin is not None and end is not None and begin > end:
        raise StatementError(line, f"region {text!r} ends before it begins")
    if pitch == 0:
        raise StatementError(line, f"region {text!r} has pitch 0")
    return RegionText(name, begin, end, pitch, width)


def parse_name(text: str, line: int, what: str) -> str:
    """Check a name of a stream, block, event, graph, message or communicator."""
    if _NAME.match(text) is None:
        raise StatementError(line, f"{text!r} is no name of {what}")
    return text


def parse_number(text: str, line: int, what: str) -> int:
    """Read a non-negative decimal number."""
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise StatementError(line, f"{what} is {text!r}; expected a number of at most 18 digits")
    return int(text)


def parse_device(text: str, line: int) -> int:
    """Read a device number."""
    device = parse_number(text, line, "the device")
    if device > 1023:
        raise StatementError(line, f"device {device}; expected at most 1023")
    return device


def parse_option(text: str, key: str, line: int) -> str:
    """Read the value of a word `key=value`."""
    name, separator, value = text.partition("=")
    if name != key or not separator or not value:
        raise StatementError(line, f"{text!r} is not understood; expected {key}=...")
    return value
