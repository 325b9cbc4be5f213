"""Reads raw findings with the best names they had: when they were made, later, and at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from streamguard.report.build import build_finding, keep_names
from streamguard.report.model import Finding

RawFinding = Mapping[str, object]
Annotator = Callable[[RawFinding], Mapping[str, object]]


class FindingReader:
    """Keeps the names that a finding had soon after it was made; its bytes may have others later.

    A running program and a replayed trace call it at the same points, so both name alike.

    Args:
        read: Returns the raw finding of an id, with the names it has now.
        annotate: Fields that others know, such as `known`.
        on_finding: Called for every new finding, and again when more of its names are known.
    """

    def __init__(
        self,
        read: Callable[[int], RawFinding],
        *,
        annotate: Annotator,
        on_finding: Callable[[Finding], None] | None = None,
    ) -> None:
        self._read = read
        self._annotate = annotate
        self._on_finding = on_finding
        self._named: dict[int, Finding] = {}
        self.unnamed_ids: list[int] = []  # what `names_have_come` will read again

    def announce(self, finding_id: int) -> None:
        """A new finding was made."""
        self.unnamed_ids.append(finding_id)
        self._read_anew(finding_id)

    def names_have_come(self) -> None:
        """Read findings again that were made before the newest names were given.

        What a kernel writes is often named right after it was issued, and forgotten with its block.
        """
        if not self.unnamed_ids:
            return
        waiting, self.unnamed_ids = self.unnamed_ids, []
        for finding_id in waiting:
            self._read_anew(finding_id)

    def as_named(self, raw: RawFinding) -> Finding:
        """The finding as it is now, with the names it was given at its time."""
        finding = self._built(raw)
        named = self._named.get(finding.id)
        if named is None:
            return finding
        return replace(
            keep_names(named, finding),
            count=finding.count,
            step=finding.step,
            inserted=finding.inserted,
            tries=finding.tries,
        )

    def _read_anew(self, finding_id: int) -> None:
        finding = self._built(self._read(finding_id))
        earlier = self._named.get(finding_id)
        if earlier is not None:
            finding = keep_names(finding, earlier)
        self._named[finding_id] = finding
        if self._on_finding is not None:
            self._on_finding(finding)

    def _built(self, raw: RawFinding) -> Finding:
        return build_finding(raw, annotations=self._annotate(raw))
