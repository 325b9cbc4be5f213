"""How a rank says what was found: to standard error, and into a file of the run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from streamguard.collectives.desync import Verdict
from streamguard.collectives.verdict_text import render
from streamguard.collectives.views import View


class Notices:
    """Writes for one rank.

    Args:
        directory: The run's.
        run: Its id.
        rank: Own rank; None for whoever started the ranks.
    """

    def __init__(self, directory: Path, run: str, rank: int | None) -> None:
        self._directory = directory
        self._run = run
        self._rank = rank

    def report(self, verdict: Verdict, views: Mapping[int, View]) -> None:
        """Say what is wrong between ranks."""
        text = render(verdict, views)
        self.publish(
            "desync",
            text,
            {"type": "desync", "code": verdict.code, "kind": verdict.kind, "text": text,
             "culprits": list(verdict.culprits), "group": verdict.key,
             "position": verdict.position, "rank": self._rank},
        )  # fmt: skip

    def publish(self, name: str, text: str, entry: dict[str, object]) -> None:
        """Print a text, and add an entry to `<name>.jsonl`."""
        self.say(text)
        try:
            entry |= {"run": self._run, "time": time.time()}
            with (self._directory / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            self.say(f"cannot write to {self._directory}: {error.strerror}")

    def say(self, text: str) -> None:
        """Print one text."""
        print(f"streamguard: {text}", file=sys.stderr, flush=True)
