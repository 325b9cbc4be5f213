"""What is wrong with a litmus file, and where."""

from __future__ import annotations

from streamguard.errors import StreamguardError


class LitmusError(StreamguardError):
    """A litmus file or line cannot be read or means nothing.

    Args:
        source: File name as the user gave it, or "standard input".
        line: Line in that file, from 1.
        reason: What is wrong, with the offending text.
    """

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(f"{source}:{line}: {reason}")
        self.source = source
        self.line = line
        self.reason = reason


class StatementError(Exception):
    """One event line is wrong; whoever knows the file turns this into a `LitmusError`.

    Args:
        line: Line in the file, from 1.
        reason: What is wrong, with the offending text.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason
