"""Matches findings, and configurations at start, with races of DeepSpeed known upstream."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

import yaml

from streamguard.deepspeed.configuration import Configuration, parse_release

if TYPE_CHECKING:
    from streamguard.finding_reader import RawFinding

_SETTINGS = ("overlap_comm", "contiguous_gradients", "reduce_scatter")
_configuration: Configuration | None = None


class KnownRaceWarning(UserWarning):
    """The release and the configuration have a race that is known upstream."""


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """Shell patterns; a leading `!` inverts one, an empty one admits everything."""

    stream: str = ""
    region: str = ""
    op: str = ""

    def admits(self, access: Mapping[str, object], names: Sequence[Mapping[str, object]]) -> bool:
        """Whether the access of a raw finding, whose overlap has these names, fits."""
        stream = cast("Mapping[str, object]", access["stream"] or {}).get("name", "host")
        regions = [str(name["name"]) for name in names]
        return (
            _fits(self.stream, [str(stream)])
            and _fits(self.op, [str(access["op"])])
            and _fits(self.region, regions)
        )


@dataclass(frozen=True, slots=True)
class KnownRace:
    """One upstream race: which releases have it, what a finding of it looks like, what avoids it.

    Attributes:
        affected: Half-open ranges of releases; an open end is None.
        first_good: For people; may name a pull request.
        needs: Setting name to the value without which the race cannot happen.
    """

    id: str
    title: str
    upstream: tuple[str, ...]
    affected: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]
    first_good: str
    stages: frozenset[int]
    needs: Mapping[str, bool]
    domains: frozenset[str]
    first: AccessPattern
    second: AccessPattern
    avoid: str
    at_start: bool

    def applies_to(self, configuration: Configuration) -> bool:
        """Whether this release, stage and these settings can show the race."""
        return (
            any(
                first_bad <= configuration.release
                and (good is None or configuration.release < good)
                for first_bad, good in self.affected
            )
            and configuration.stage in self.stages
            and all(getattr(configuration, name) == value for name, value in self.needs.items())
        )

    def fits(self, finding: RawFinding) -> bool:
        """Whether both accesses of a raw finding look like this race's."""
        overlap = cast("Mapping[str, Sequence[Mapping[str, object]]]", finding["overlap"])
        first = cast("Mapping[str, object]", finding["first"])
        second = cast("Mapping[str, object]", finding["second"])
        return (
            finding["domain"] in self.domains
            and self.first.admits(first, overlap["names_first"])
            and self.second.admits(second, overlap["names_second"])
        )

    def affected_text(self) -> str:
        """The ranges for people: "0.17.2 to before 0.17.5"."""
        return ", ".join(
            f"{'.'.join(map(str, bad))} " + ("on" if good is None else f"to before {_text(good)}")
            for bad, good in self.affected
        )


@cache
def known_races() -> tuple[KnownRace, ...]:
    """Return the entries of known_races.yaml, in the order in which they are tried."""
    text = (files(__package__) / "known_races.yaml").read_text(encoding="utf-8")
    return tuple(_parse(entry) for entry in yaml.load(text, Loader=yaml.BaseLoader))


def set_configuration(configuration: Configuration | None) -> None:
    """Say what runs; findings are matched against the newest engine's configuration."""
    global _configuration
    _configuration = configuration


def match(finding: RawFinding, configuration: Configuration) -> KnownRace | None:
    """Return the first entry that the configuration can show and the finding looks like."""
    fitting = (r for r in known_races() if r.applies_to(configuration) and r.fits(finding))
    return next(fitting, None)


def annotate(finding: RawFinding) -> Mapping[str, object]:
    """Return `{"known": …}` for a raw finding that is known upstream, else nothing."""
    return {} if _configuration is None else annotations_for(finding, _configuration)


def annotations_for(finding: RawFinding, configuration: Configuration) -> Mapping[str, object]:
    """As `annotate`, for a configuration that need not be this process's."""
    race = match(finding, configuration)
    if race is None:
        return {}
    return {
        "known": {
            "id": race.id,
            "title": race.title,
            "upstream": list(race.upstream),
            "affected": race.affected_text(),
            "first_good": race.first_good,
            "avoid": race.avoid,
            "running": configuration.release_text,
        }
    }


def warn_at_start(configuration: Configuration) -> None:
    """Warn, once per node, where release and settings alone say that gradients will race."""
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return
    for race in known_races():
        if race.at_start and race.applies_to(configuration):
            warnings.warn(
                f"DeepSpeed {configuration.release_text} with this configuration has a known race: "
                f"{race.title} ({', '.join(race.upstream)}). First good release: "
                f"{race.first_good}. To avoid it: {race.avoid}.",
                KnownRaceWarning,
                stacklevel=4,  # the program's line: deepspeed.initialize, engine, wrapper, here
            )


def _fits(pattern: str, texts: Sequence[str]) -> bool:
    if not pattern:
        return True
    if pattern.startswith("!"):
        return not any(fnmatchcase(text, pattern[1:]) for text in texts)
    return any(fnmatchcase(text, pattern) for text in texts)


def _text(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def _parse(entry: Mapping[str, object]) -> KnownRace:
    """Read one entry; BaseLoader leaves every scalar a text, so that 0.14.0 is no number."""
    affected = cast("Sequence[tuple[str, str]]", entry["affected"])
    pair = cast("Mapping[str, object]", entry["pair"])
    needs = {name: _switch(value) for name, value in cast("dict[str, str]", entry["needs"]).items()}
    unknown = needs.keys() - set(_SETTINGS)
    if unknown:
        raise ValueError(f"{entry['id']}: needs {sorted(unknown)}; expected some of {_SETTINGS}")
    return KnownRace(
        id=str(entry["id"]),
        title=str(entry["title"]),
        upstream=tuple(cast("Sequence[str]", entry["upstream"])),
        affected=tuple(
            (parse_release(bad), None if good == "null" else parse_release(good))
            for bad, good in affected
        ),
        first_good=str(entry["first_good"]),
        stages=frozenset(int(stage) for stage in cast("Sequence[str]", entry["stages"])),
        needs=needs,
        domains=frozenset(cast("Sequence[str]", pair["domain"])),
        first=AccessPattern(**cast("dict[str, str]", pair["first"])),
        second=AccessPattern(**cast("dict[str, str]", pair["second"])),
        avoid=str(entry["avoid"]),
        at_start=_switch(str(entry["at_start"])),
    )


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r}: expected true or false")
    return text == "true"
