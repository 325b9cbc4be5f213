"""Tests of `streamguard.report.build`."""

from __future__ import annotations

from streamguard.report.build import build_finding, keep_names
from tests.unit.raw_findings import access, finding, reduction

KNOWN = {"id": "x-1", "title": "known", "upstream": ["PR 1"]}


def _nameless(**changes: object) -> dict[str, object]:
    return finding(
        first=reduction(names=[]),
        second=access(names=[]),
        overlap={"begin": 65536, "end": 66560, "names_first": [], "names_second": []},
        **changes,
    )


def test_names_that_ended_with_their_memory_are_kept() -> None:
    """The count is the newer one, the names and the upstream defect those that were known."""
    older = build_finding(finding(count=1), annotations={"known": KNOWN})
    newer = build_finding(_nameless(count=9))

    kept = keep_names(newer, older)

    assert kept.count == 9
    assert (kept.first.names, kept.second.names) == (older.first.names, older.second.names)
    assert kept.overlap == older.overlap
    assert kept.known == older.known


def test_newer_names_win() -> None:
    """A gradient is often named right after the kernel that wrote it was issued."""
    named = [{"name": "gradient of layers.0.bias", "begin": 0, "end": 4096}]
    older = build_finding(finding())
    newer = build_finding(finding(second=access(names=named)))

    kept = keep_names(newer, older)

    assert [item.name for item in kept.second.names] == ["gradient of layers.0.bias"]


def test_annotations_replace_fields() -> None:
    """What an annotator says of a finding becomes part of it."""
    built = build_finding(finding(), annotations={"known": KNOWN})

    assert built.known is not None
    assert (built.known.id, built.known.upstream) == ("x-1", ("PR 1",))
    assert build_finding(finding()).known is None
