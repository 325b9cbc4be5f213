"""Writes a rendered report to a stream, with colours only where they help."""

from __future__ import annotations

import os
from typing import TextIO


def write_text(text: str, stream: TextIO) -> None:
    """Write a rendered report.

    Colours are used on a terminal unless NO_COLOR is set; the characters are the same either way,
    and rich is loaded for nothing else.
    """
    if stream.isatty() and not os.environ.get("NO_COLOR"):
        from streamguard.report.terminal import print_coloured

        print_coloured(text, stream)
    else:
        # A report must not be lost to a name that the terminal's encoding cannot show.
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
