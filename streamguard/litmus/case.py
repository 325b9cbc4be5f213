"""Litmus cases and their files: YAML, or one JSON object a line."""

from __future__ import annotations

import difflib
import json
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import yaml

from streamguard.litmus.errors import LitmusError, StatementError
from streamguard.litmus.statement import Statement, parse_statement

_KINDS = ("RAW", "WAR", "WAW", "UAF")
_DOMAINS = ("device", "host", "reuse", "lifetime")
_VERDICTS = ("race", "clean")
_VARIANTS = ("buggy", "fixed", "sequence")
_JSON_KEYS = ("id", "case", "variant", "events", "verdict", "races")
# In messages: a few YAML aliases of aliases can stand for more text than fits into memory.
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 2


class RacePair(NamedTuple):
    """One race as litmus names it: the labels in issue order."""

    kind: str
    domain: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a file says about one variant; a part it does not mention is None."""

    verdict: str | None
    races: frozenset[RacePair] | None


@dataclass(frozen=True, slots=True)
class Variant:
    """One program of a case: `name` is buggy, fixed or sequence."""

    case_id: str
    name: str
    source: str
    statements: tuple[Statement, ...]
    expectation: Expectation


def read_cases(text: str, source: str) -> list[Variant]:
    """Read every variant of a file.

    A text whose first character is `{` is JSON lines, everything else is one YAML case.

    Raises:
        LitmusError: with the line and the reason.
    """
    if text.lstrip().startswith("{"):
        return [variant for variant in _read_json_lines(text, source)]
    return _read_yaml(text, source)


def _read_json_lines(text: str, source: str) -> Iterable[Variant]:
    for number, line_text in enumerate(text.split("\n"), start=1):
        if not line_text.strip():
            continue
        try:
            record = json.loads(line_text)
        except (ValueError, RecursionError) as error:
            raise LitmusError(source, number, f"no JSON object: {error}") from error
        if not isinstance(record, dict):
            raise LitmusError(source, number, f"expected an object, got {_shown(record)}")
        case_id = _as_text(record.get("id", record.get("case")))
        if case_id is None:
            raise LitmusError(source, number, 'the object has no "id" or "case"')
        _refuse_misspelt_keys(record, number, source)
        name = record.get("variant", "sequence")
        if name not in _VARIANTS:
            raise LitmusError(
                source, number, f"variant is {_shown(name)}, expected one of {_VARIANTS}"
            )
        statements = _statements(record.get("events"), [], number, source)
        verdict = _verdict(record.get("verdict"), number, source)
        races = _races(record.get("races"), number, source)
        yield Variant(case_id, name, source, statements, Expectation(verdict, races))


def _read_yaml(text: str, source: str) -> list[Variant]:
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise LitmusError(source, line, f"no YAML: {error.reason}") from error
    try:
        node = loader.get_single_node()
        document = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise LitmusError(source, line, f"no YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise LitmusError(source, 1, f"no YAML: {error}") from error
    finally:
        loader.dispose()
    if node is None or not isinstance(document, dict):
        raise LitmusError(source, 1, "the file holds no case: expected a mapping")
    _refuse_repeated_keys(node, source)
    case_id = _as_text(document.get("id"))
    if case_id is None:
        raise LitmusError(source, 1, "the case has no id")
    _refuse_misspelt_variants(node, source)
    names = [name for name in _VARIANTS if name in document]
    if not names:
        raise LitmusError(source, 1, f"case {case_id} has none of {', '.join(_VARIANTS)}")
    return [_yaml_variant(case_id, name, document[name], node, source) for name in names]


def _yaml_variant(
    case_id: str, name: str, content: object, root: yaml.Node, source: str
) -> Variant:
    here = _value_of(root, name)
    line = here.start_mark.line + 1
    if not isinstance(content, dict):
        raise LitmusError(source, line, f"{name} is no mapping with events and expect")
    _refuse_other_keys(content, ("events", "expect"), name, line, source)
    _refuse_repeated_keys(here, source)
    events = _value_of(here, "events") if "events" in content else None
    lines = (
        [item.start_mark.line + 1 for item in events.value]
        if isinstance(events, yaml.SequenceNode)
        else []
    )
    statements = _statements(content.get("events"), lines, line, source)
    expect = content.get("expect", {})
    if not isinstance(expect, dict):
        raise LitmusError(source, line, f"expect of {name} is no mapping")
    _refuse_other_keys(expect, ("verdict", "races"), f"expect of {name}", line, source)
    verdict = _verdict(expect.get("verdict"), line, source)
    races = _races(expect.get("races"), line, source)
    return Variant(case_id, name, source, statements, Expectation(verdict, races))


def _value_of(node: yaml.Node, key: str) -> yaml.Node:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == key:
                assert isinstance(value_node, yaml.Node)
                return value_node
    return node  # a merge key brought it in: the mapping is the nearest position there is


def _statements(events: object, lines: list[int], line: int, source: str) -> tuple[Statement, ...]:
    """Parse event lines; `lines` holds their positions where the format knows them."""
    if not isinstance(events, list):
        raise LitmusError(source, line, "events is missing or no list of lines")
    statements = []
    for index, event in enumerate(events):
        at = lines[index] if index < len(lines) else line
        if not isinstance(event, str):
            raise LitmusError(source, at, f"event {index + 1} is no text: {_shown(event)}")
        try:
            statement = parse_statement(event, at)
        except StatementError as error:
            raise LitmusError(source, at, f"event {index + 1}: {error.reason}") from error
        if statement is not None:
            statements.append(statement)
    return tuple(statements)


def _verdict(value: object, line: int, source: str) -> str | None:
    if value is None:
        return None
    if value not in _VERDICTS:
        raise LitmusError(source, line, f"verdict is {_shown(value)}, expected race or clean")
    return str(value)


def _races(value: object, line: int, source: str) -> frozenset[RacePair] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise LitmusError(source, line, f"races is no list: {_shown(value)}")
    return frozenset(_race(item, line, source) for item in value)


def _race(item: object, line: int, source: str) -> RacePair:
    fields = item
    if isinstance(item, dict):
        fields = [item.get(name) for name in RacePair._fields]
    if not isinstance(fields, list) or len(fields) != 4:
        raise LitmusError(
            source, line, f"a race has kind, domain, first, second; got {_shown(item)}"
        )
    kind, domain, *labels = fields
    first, second = (_as_text(label) for label in labels)
    if kind not in _KINDS or domain not in _DOMAINS or first is None or second is None:
        raise LitmusError(source, line, f"no race of this kind and domain: {_shown(item)}")
    return RacePair(kind, domain, first, second)


def _as_text(value: object) -> str | None:
    """Text, or a number that YAML made of it; None for anything else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    # Python refuses to print a number of many thousand digits, which YAML reads from hexadecimals.
    return str(value) if abs(value) < 1 << 64 else None


def _shown(value: object) -> str:
    try:
        return f"{_SHORT.repr(value):.60}"
    except ValueError:
        return "a number of too many digits"


def _refuse_other_keys(
    content: dict[object, object], known: tuple[str, ...], where: str, line: int, source: str
) -> None:
    """A misspelt `expect` would be a program that nothing is expected of."""
    for key in content:
        if key not in known:
            reason = f"{where} has {_shown(key)}; expected {' and '.join(known)} only"
            raise LitmusError(source, line, reason)


def _refuse_misspelt_variants(root: yaml.Node, source: str) -> None:
    """A case may carry notes of any name, but no program that nobody would run."""
    for key, value in root.value:
        has_events = isinstance(value, yaml.MappingNode) and _value_of(value, "events") is not value
        if has_events and key.value not in _VARIANTS:
            reason = f"{_shown(key.value)} has events; a program is called {', '.join(_VARIANTS)}"
            raise LitmusError(source, key.start_mark.line + 1, reason)


def _refuse_misspelt_keys(record: dict[str, object], line: int, source: str) -> None:
    """Other keys are notes, unless they look like an expectation that would not be checked."""
    for key in record:
        near = [] if key in _JSON_KEYS else difflib.get_close_matches(key, _JSON_KEYS, cutoff=0.8)
        if near:
            raise LitmusError(source, line, f"{_shown(key)} is not known; did you mean {near[0]}?")


def _refuse_repeated_keys(mapping: yaml.Node, source: str) -> None:
    """YAML takes the last of two equal keys, and the first program would not be looked at."""
    seen: set[str] = set()
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else []
    for key, _ in pairs:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value in seen:
            reason = f"{_shown(key.value)} is given twice"
            raise LitmusError(source, key.start_mark.line + 1, reason)
        seen.add(key.value)
