"""Tests of result files: `streamguard.report.jsonl`, `encode` and `decode`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamguard.report.build import build_coverage, build_finding, build_watched
from streamguard.report.fields import FieldError
from streamguard.report.jsonl import RankFile, Record, read_rank_file, to_json, to_line
from streamguard.report.model import Frame, Misuse, RankSummary
from tests.unit.ranks import start
from tests.unit.raw_findings import access, coverage, finding, watched

KNOWN = {
    "id": "ds-6993",
    "title": "ping-pong index reset",
    "upstream": ["DeepSpeed PR 6993", "issue 7804"],
    "affected": "0.17.2 to 0.17.4",
    "first_good": "0.17.5",
    "avoid": "overlap_comm: false",
    "running": "0.17.2",
}


def _write(path: Path, *records: Record) -> None:
    path.write_text("".join(to_line(record) for record in records))


def test_every_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """All record types survive the file, field by field."""
    race = build_finding(finding(), annotations={"known": KNOWN})
    host = build_finding(
        finding(
            id=2,
            code="SG005",
            domain="host",
            second=access(
                on_host=True,
                stream=None,
                host_thread=1,
                frames=[],
                forward_frames=[["/job/model.py", 5, "forward"]],
            ),
        )
    )
    misuse = Misuse(1, "SG101", 4, 0, "freed too early", (Frame("/job/a.py", 3, "f"),))
    listed = build_watched(watched())
    opaque = build_coverage(
        coverage(opaque={"cublas": 2}, launches_observed=True, silent=["cupti (no library)"])
    )
    summary = RankSummary(0, 1000, opaque, ("disk full",))
    path = tmp_path / "rank-0-1000.jsonl"
    _write(path, start(), race, host, misuse, listed, summary)

    result = read_rank_file(path)

    assert result.damaged == []
    assert result.rank is not None
    assert result.rank.start == start()
    assert result.rank.findings == (race, host)
    assert result.rank.misuses == (misuse,)
    assert result.rank.accesses == (listed,)
    assert result.rank.summary == summary


def test_records_carry_type_kind_and_domain() -> None:
    """What other tools rely on is in every race record, under the names litmus uses."""
    values = to_json(build_finding(finding()))

    assert (values["type"], values["schema"]) == ("race", 1)
    assert (values["code"], values["kind"], values["domain"]) == ("SG002", "WAR", "device")


def test_a_later_record_replaces_one_with_the_same_id(tmp_path: Path) -> None:
    """Counts and names that are known later win."""
    path = tmp_path / "rank-0-1000.jsonl"
    _write(path, start(), build_finding(finding(count=1)), build_finding(finding(count=9)))

    result = read_rank_file(path)

    assert result.rank is not None
    assert [item.count for item in result.rank.findings] == [9]


def test_what_was_appended_is_in_the_file_without_a_close(tmp_path: Path) -> None:
    """A killed process loses no record: each is written when `append` returns."""
    file = RankFile(tmp_path / "new" / "directory", rank=3, pid=77)
    file.append(start(3, pid=77))
    file.append(build_finding(finding()))

    result = read_rank_file(tmp_path / "new" / "directory" / "rank-3-77.jsonl")

    assert result.rank is not None
    assert result.rank.summary is None
    assert [item.code for item in result.rank.findings] == ["SG002"]
    file.close()


def test_a_file_that_is_there_is_not_emptied(tmp_path: Path) -> None:
    """Process ids come again: the records of an earlier run are never lost."""
    for count in (1, 2):
        file = RankFile(tmp_path, rank=0, pid=77)
        file.append(start(count))
        file.close()

    assert len((tmp_path / "rank-0-77.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"type":"race","sch', "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"type":"race","schema":1}', "'id' is missing"),
        ('{"type":"race","schema":99}', "schema 99"),
        ('{"type":"race"}', "schema None"),
        ('{"type":"banana","schema":1}', "'banana'"),
        ("\x00\xff", "not JSON"),
    ],
)
def test_a_damaged_record_is_named_and_the_others_kept(
    tmp_path: Path, line: str, reason: str
) -> None:
    """The position of the damage is told; good records before and after it stay."""
    path = tmp_path / "rank-0-1000.jsonl"
    race = build_finding(finding())
    path.write_text(to_line(start()) + line + "\n" + to_line(race))

    result = read_rank_file(path)

    assert result.rank is not None
    assert result.rank.findings == (race,)
    assert [(error.path, error.line) for error in result.damaged] == [(str(path), 2)]
    assert reason in result.damaged[0].reason


def test_a_line_cut_off_by_a_kill_is_named(tmp_path: Path) -> None:
    """The last line without its end is damage; what is before it counts."""
    path = tmp_path / "rank-0-1000.jsonl"
    race = build_finding(finding())
    path.write_text(to_line(start()) + to_line(race) + to_line(race)[:50])

    result = read_rank_file(path)

    assert result.rank is not None
    assert result.rank.findings == (race,)
    assert [error.line for error in result.damaged] == [3]


def test_a_file_without_start_is_no_rank(tmp_path: Path) -> None:
    """An empty file says that it is none, at its first line."""
    path = tmp_path / "rank-0-1.jsonl"
    path.write_text("")

    result = read_rank_file(path)

    assert result.rank is None
    assert [error.line for error in result.damaged] == [1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "READ"}, "kind"),
        ({"count": "3"}, "count"),
        ({"count": True}, "count"),
        ({"first": None}, "first"),
        ({"second": access(region={"begin": 0})}, "second.region.width"),
        ({"second": access(frames=[["a.py", 1]])}, "frames[0]"),
        ({"overlap": {"begin": 0, "end": 4, "names_first": [3]}}, "overlap.names_first[0]"),
    ],
)
def test_a_wrong_field_is_named_with_its_path(changes: dict[str, object], field: str) -> None:
    """What the hooks hand over is checked at the border."""
    with pytest.raises(FieldError) as caught:
        build_finding(finding(**changes))

    assert field in str(caught.value)


def test_lines_hold_one_json_object_each() -> None:
    """A record is one line, whatever its texts contain."""
    race = build_finding(finding(first=access(op="custom\nop")))

    line = to_line(replace(race, count=2))

    assert line.count("\n") == 1
    assert json.loads(line)["first"]["op"] == "custom\nop"
