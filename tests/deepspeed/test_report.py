"""What a person reads about DeepSpeed: the warning at start, the known race, the accesses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.deepspeed.training import Training, names, report_of, train


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Training:
    folder = tmp_path_factory.mktemp("racy")
    done = train("0.17.2", output=folder / "out", accesses="ipg_buffer[*]", trace=folder / "trace")
    return replace(done, folder=folder)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Training:
    output = tmp_path_factory.mktemp("clean") / "out"
    return train("0.19.8", output=output, accesses="ipg_buffer[*]")


def test_a_release_with_a_known_race_is_warned_of_once_at_start(racy: Training) -> None:
    """Release and configuration alone decide; two ranks on one node warn once."""
    warnings = [line for line in racy.text.splitlines() if "KnownRaceWarning" in line]

    assert len(warnings) == 1
    assert "DeepSpeed 0.17.2" in warnings[0]
    assert "PR 6993" in warnings[0]
    assert "train_zero2.py" in warnings[0]


def without_hints(report: str) -> str:
    """The report as it is without SG101, which a trace does not hold (docs/limits.md)."""
    text = re.sub(r"\nhints: .*\n(  SG101 .*\n)+", "", report)
    text = re.sub(r", \d+ hints?$", "", text, flags=re.MULTILINE)
    text = re.sub(r'^\{"type":"misuse".*"SG101".*\n', "", text, flags=re.MULTILINE)
    return re.sub(r'"hints":\d+', '"hints":0', text)


def test_a_replayed_trace_gives_the_same_report(racy: Training) -> None:
    """Names of buckets and gradients, listed accesses and the known race: the text and the JSON."""
    assert racy.folder is not None
    out, trace = str(racy.folder / "out"), str(racy.folder / "trace")
    shown, replayed = without_hints(report_of("show", out)), report_of("replay", trace)

    assert "known upstream" in shown or "PR 6993" in shown
    assert replayed == shown
    assert report_of("replay", "--json", trace) == without_hints(report_of("show", "--json", out))


def test_a_release_without_it_is_not_warned_of(clean: Training) -> None:
    """0.19.8 in the same configuration starts without a word."""
    assert "KnownRaceWarning" not in clean.text


def test_both_sides_are_named_as_they_were_at_their_time(racy: Training) -> None:
    """The reduction worked on the bucket's old gradients, the copy brings another one."""
    refills = [race for race in racy.races if race["second"]["op"] == "aten::copy_"]

    assert refills
    for race in refills:
        assert not set(names(race, "first")) & set(names(race, "second")), race["overlap"]
        assert race["step"] is not None


def test_a_finding_names_the_upstream_race_and_the_way_out(racy: Training) -> None:
    """Pull request, affected releases, first good release and configuration stand in the record."""
    for race in racy.races:
        known = race["known"]
        assert known["id"] == "deepspeed-pr-6993"
        assert known["upstream"] == ["PR 6993", "issue 7804"]
        assert known["affected"] == "0.17.2 to before 0.17.5"
        assert known["first_good"].startswith("0.17.5")
        assert "overlap_comm: false" in known["avoid"]


@pytest.mark.parametrize("which", ["racy", "clean"])
def test_accesses_to_the_buckets_are_listed_also_when_nothing_races(
    which: str, request: pytest.FixtureRequest
) -> None:
    """Every bucket shows the copy that fills it and the reduction, each with its stream."""
    run: Training = request.getfixturevalue(which)
    accesses = run.of_type("access")
    buckets = {record["name"] for record in accesses}

    assert buckets == {"ipg_buckets[bfloat16].buffer[0]", "ipg_buckets[bfloat16].buffer[1]"} or (
        # 0.17.2 never comes to use its first buffer: that is the bug
        which == "racy" and buckets <= {f"ipg_buckets[bfloat16].buffer[{i}]" for i in (0, 1)}
    )
    for bucket in buckets:
        writers = {
            (record["op"], record["stream"].split(" (")[0])
            for record in accesses
            if record["name"] == bucket and record["access"] == "write"
        }
        assert ("aten::copy_", "default stream") in writers
        assert ("c10d::allreduce_", "reduction_stream") in writers


def test_every_pair_in_the_buckets_of_a_clean_run_has_its_edge(clean: Training) -> None:
    """Nothing in the access list of a clean run is unordered."""
    edges = [
        edge["edge"]["kind"]
        for record in clean.of_type("access")
        for edge in record["ordered_after"]
    ]

    assert edges
    assert "none" not in edges


def test_three_ranks_report_as_one_job(tmp_path: Path) -> None:
    """One report for the job; a pair that several ranks saw is one record with their numbers."""
    run = train("0.17.2", output=tmp_path / "out", ranks=3)

    assert run.text.count("SUMMARY streamguard") == 1
    assert "ranks=3/3" in run.text
    assert any([rank for rank, _ in race["ranks"]] == [0, 1, 2] for race in run.races)
