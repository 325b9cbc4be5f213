"""Which entry of known_races.yaml a configuration and a finding select."""

from __future__ import annotations

import warnings

import pytest

from streamguard.deepspeed import known_races
from streamguard.deepspeed.configuration import Configuration, parse_release


def configuration(release: str, *, stage: int = 2, overlap_comm: bool = True) -> Configuration:
    return Configuration(parse_release(release), stage, overlap_comm, True, True, 2)


def finding(domain: str, first: tuple[str, str], second: tuple[str, str], name: str) -> dict:
    """Return a raw finding: (op, stream) twice, and the name of the overlap's bytes."""
    return {
        "domain": domain,
        "first": {"op": first[0], "stream": {"name": first[1]}},
        "second": {"op": second[0], "stream": {"name": second[1]}},
        "overlap": {"names_first": [{"name": name}], "names_second": [{"name": name}]},
    }


REFILL = finding(
    "device",
    ("c10d::allreduce_", "reduction_stream"),
    ("aten::copy_", "default stream (device 0)"),
    "ipg_buffer[0], gradient of layers.3.weight",
)


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("0.7.7", None),
        ("0.8.0", "deepspeed-pr-2500"),
        ("0.14.2", "deepspeed-pr-2500"),
        ("0.14.3", "deepspeed-open-refill-by-another-producer"),
        ("0.17.2", "deepspeed-pr-6993"),
        ("0.17.4", "deepspeed-pr-6993"),
        ("0.17.5", "deepspeed-open-refill-by-another-producer"),
        ("0.19.8", "deepspeed-open-refill-by-another-producer"),
    ],
)
def test_the_release_decides_between_races_that_look_alike(
    release: str, expected: str | None
) -> None:
    """The refill of a bucket under reduction has three causes, each with its releases."""
    race = known_races.match(REFILL, configuration(release))

    assert (race.id if race else None) == expected


@pytest.mark.parametrize("change", [{"stage": 3}, {"overlap_comm": False}])
def test_a_configuration_that_cannot_show_a_race_matches_nothing(change: dict) -> None:
    """The same pair in another stage, or without overlap, is not the known race."""
    assert known_races.match(REFILL, configuration("0.17.2", **change)) is None


def test_a_pair_on_other_streams_is_not_the_known_race() -> None:
    """A user's own stream instead of the reduction stream: nothing upstream knows that."""
    own = finding("device", ("aten::mul", "stream 3"), ("aten::copy_", "stream 4"), "ipg_buffer[0]")

    assert known_races.match(own, configuration("0.17.2")) is None


@pytest.mark.parametrize(
    ("release", "count"),
    [("0.14.2", 1), ("0.14.3", 0), ("0.17.2", 1), ("0.17.5", 0), ("0.19.8", 0)],
)
def test_the_warning_at_start_follows_release_and_settings(release: str, count: int) -> None:
    """Only races that configuration alone decides are warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        known_races.warn_at_start(configuration(release))

    assert len(caught) == count


def test_only_the_first_rank_of_a_node_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight ranks of a node do not say the same thing eight times."""
    monkeypatch.setenv("LOCAL_RANK", "1")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        known_races.warn_at_start(configuration("0.17.2"))

    assert caught == []


@pytest.mark.parametrize(
    ("text", "release"), [("0.17.2", (0, 17, 2)), ("0.19.8+unknown", (0, 19, 8)), ("1.0rc1", (1,))]
)
def test_releases_are_read_up_to_the_first_part_that_is_no_number(
    text: str, release: tuple[int, ...]
) -> None:
    """Local versions and pre-releases do not confuse the comparison."""
    assert parse_release(text) == release
