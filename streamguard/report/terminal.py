"""Colours for a report on a terminal; the only module that uses rich."""

from __future__ import annotations

import re
from typing import TextIO

from rich.console import Console
from rich.text import Text

_STYLES = (
    (re.compile(r"^SG\d{3} [^:\n]*", re.MULTILINE), "bold red"),
    (re.compile(r"^  repair .*$", re.MULTILINE), "green"),
    (re.compile(r"^(?:incomplete|checked nothing):.*$", re.MULTILINE), "yellow"),
    (re.compile(r"^ {6}NOT ordered.*$", re.MULTILINE), "bold red"),
    (re.compile(r"^SUMMARY .*$", re.MULTILINE), "bold"),
)


def print_coloured(text: str, stream: TextIO) -> None:
    """Write a rendered report with colours; the characters are exactly those of `text`."""
    coloured = Text(text, end="", no_wrap=True, overflow="ignore")
    for pattern, style in _STYLES:
        coloured.highlight_regex(pattern, style)
    console = Console(file=stream, force_terminal=True, highlight=False, soft_wrap=True)
    console.print(coloured, end="", soft_wrap=True)
