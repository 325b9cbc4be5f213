"""Every case file: verdict and exact race set, of the engine and of the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from streamguard.litmus.case import read_cases
from streamguard.litmus.verdict import run_variant
from tests.litmus.oracle import Oracle

_FOLDER = Path(__file__).parent.parent / "data" / "litmus"
_FILES = sorted(_FOLDER.glob("*.yaml"))
_VARIANTS = ("buggy", "fixed", "sequence")
_PROGRAMS = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in _FILES
    for name in _VARIANTS
    if name in yaml.safe_load(path.read_text())
]


def expected_races(path: Path, name: str) -> tuple[str, set[tuple[str, ...]], list[str]]:
    """Read the expectation and the events without the product's own reader."""
    content = yaml.safe_load(path.read_text())[name]
    races = {
        (race["kind"], race["domain"], race["first"], race["second"])
        for race in content["expect"]["races"]
    }
    return content["expect"]["verdict"], races, content["events"]


def test_all_case_files_are_here() -> None:
    """66 files with 111 programs: none was lost in copying."""
    assert (len(_FILES), len(_PROGRAMS)) == (66, 111)


@pytest.mark.parametrize(("path", "name"), _PROGRAMS)
def test_case_has_exactly_the_expected_races(path: Path, name: str) -> None:
    """The engine's verdict and race set are what the case says; so are the oracle's."""
    verdict, races, events = expected_races(path, name)
    variants = {variant.name: variant for variant in read_cases(path.read_text(), path.name)}

    outcome = run_variant(variants[name])

    assert outcome.verdict == verdict
    assert set(outcome.races) == races
    assert len(outcome.races) == len(races)
    assert outcome.is_as_expected
    assert Oracle(events).races == races
