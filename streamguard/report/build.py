"""Turns the hooks' raw dictionaries into report data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamguard.report.decode import (
    decode_coverage,
    decode_finding,
    decode_misuse,
    decode_watched,
)
from streamguard.report.model import Coverage, Finding, Misuse, WatchedAccess
from streamguard.report.repair import repair_lines, suppression_key


def build_finding(
    raw: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
) -> Finding:
    """Make a finding out of a raw one, with its repair and suppression key.

    Args:
        raw: What `streamguard.hooks.finding` returned.
        annotations: Fields that others know, such as `known`; they replace fields of `raw`.

    Raises:
        FieldError: `raw` lacks a field or has one of the wrong type.
    """
    finding = decode_finding({**raw, **(annotations or {})})
    return replace(finding, repair=repair_lines(finding), suppression=suppression_key(finding))


def keep_names(newer: Finding, older: Finding) -> Finding:
    """The newer reading of a finding, with names of the older one where it has none.

    Names end with the memory they stand for, so a finding is named best soon after it was made.
    """
    known = newer.known or older.known
    overlap = replace(
        newer.overlap,
        names_first=newer.overlap.names_first or older.overlap.names_first,
        names_second=newer.overlap.names_second or older.overlap.names_second,
    )
    named = replace(
        newer,
        first=replace(newer.first, names=newer.first.names or older.first.names),
        second=replace(newer.second, names=newer.second.names or older.second.names),
        overlap=overlap,
        known=known,
    )
    return replace(named, repair=repair_lines(named))


def build_early_free(number: int, raw: Mapping[str, object]) -> Misuse:
    """Make a hint out of one kind of early free; `number` is its id."""
    user, owner = (_bare_stream(str(raw[stream])) for stream in ("stream", "owner"))
    message = (
        f"block freed early: {raw['op']} on {user} may still {raw['access']} it, and {owner}, "
        "whose next ops may get its bytes, does not wait"
    )
    return decode_misuse({**raw, "id": number, "code": "SG101", "message": message})


def _bare_stream(name: str) -> str:
    """The name without its device, so that all ranks give the same hint."""
    return name.partition(" (device")[0]


def build_watched(raw: Mapping[str, object]) -> WatchedAccess:
    """Make an access of a listed region out of a raw one."""
    return decode_watched(raw)


def build_coverage(raw: Mapping[str, object]) -> Coverage:
    """Make a coverage out of what `streamguard.hooks.coverage` returned."""
    return decode_coverage(raw)
