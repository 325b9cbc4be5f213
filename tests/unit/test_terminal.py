"""Tests of colours: `streamguard.report.terminal` and `output`."""

from __future__ import annotations

import io
import re

import pytest

from streamguard.report.build import build_finding
from streamguard.report.merge import merge_ranks
from streamguard.report.output import write_text
from streamguard.report.text import render
from tests.unit.ranks import rank_findings
from tests.unit.raw_findings import finding

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class _Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> str:
    """A report with lines far wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return render(merge_ranks([rank_findings(findings=[build_finding(finding())])]))


def test_colours_change_no_character(text: str) -> None:
    """Without its colours the output is the plain report, also in a narrow terminal."""
    stream = _Terminal()

    write_text(text, stream)

    assert _ESCAPES.sub("", stream.getvalue()) == text
    assert "\x1b[" in stream.getvalue()


def test_no_colour_where_it_is_not_wanted(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR and streams that are no terminal get plain text."""
    plain, refused = io.StringIO(), _Terminal()
    write_text(text, plain)
    monkeypatch.setenv("NO_COLOR", "1")
    write_text(text, refused)

    assert plain.getvalue() == text
    assert refused.getvalue() == text


def test_brackets_are_not_taken_for_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names such as `ipg_buffer[0]` and `[bold]` are printed as they are."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = _Terminal()

    write_text("SG002 [bold] ipg_buffer[0]\n", stream)

    assert _ESCAPES.sub("", stream.getvalue()) == "SG002 [bold] ipg_buffer[0]\n"
