"""Limits a report to races on tensors, or in modules, of certain names.

It leaves findings out after they were made: whatever is followed stays followed, so a filter can
hide a race and cannot make one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from streamguard import hooks
from streamguard.report.merge import sum_tries
from streamguard.report.model import Finding

if TYPE_CHECKING:
    from streamguard.hooks.model_names import ModelNames

_GRADIENT = "gradient of "
Aliases = Mapping[str, tuple[str, ...]]
"""What else the regions of a name are called, for every name that was given."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Patterns of names; a finding is listed if it fits both kinds, an empty kind fits all.

    Attributes:
        tensors: Names of regions as reports show them, of parameters, buffers and their gradients.
        modules: Qualified names of modules; a pattern stands for what is inside them as well.
    """

    tensors: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tensors or self.modules)

    def texts(self) -> tuple[str, ...]:
        """Each pattern with its kind, as coverage carries it."""
        tensors = tuple(f"tensors {pattern}" for pattern in self.tensors)
        return (*tensors, *(f"modules {pattern}" for pattern in self.modules))


class ReportFilter:
    """Decides which findings are listed. One that was listed once stays listed.

    While it follows, a pair of lines has a finding for every place where it races: the first one
    does not decide for the others.

    Args:
        filters: The patterns.
        aliases: The names given to regions; grows while the program runs.
    """

    def __init__(self, filters: Filters, aliases: Aliases) -> None:
        from streamguard.hooks.model_names import ModelNames

        self._filters = filters
        self._model: ModelNames = ModelNames()
        self._aliases = aliases
        self._listed: set[int] = set()
        self._undo = self._model.follow()

    def stop(self) -> None:
        """Follow no more; what was listed stays so."""
        self._undo()

    def lists(self, finding: Finding) -> bool:
        """Whether the finding is to be reported."""
        if finding.id not in self._listed and self._fits(finding):
            self._listed.add(finding.id)
        return finding.id in self._listed

    def unmatched(self) -> tuple[str, ...]:
        """The patterns that nothing was called like: they say nothing about the program."""
        tensors = {*self._model.tensors(), *self._region_names(self._aliases)}
        modules = {*self._model.modules(), *(owner_of(name) for name in tensors)}
        absent = Filters(
            tuple(p for p in self._filters.tensors if not _fits_tensor(tensors, (p,))),
            tuple(p for p in self._filters.modules if not is_inside(modules, (p,))),
        )
        return absent.texts()

    def _fits(self, finding: Finding) -> bool:
        from streamguard.hooks.model_names import names_of_module

        place = hooks.finding_place(finding.id)
        if place.is_rest:
            return True  # not told apart, so nobody knows that it does not fit
        overlap = finding.overlap
        names = set(self._model.tensors_at(overlap.begin, overlap.end))
        given = {named.name for named in (*overlap.names_first, *overlap.names_second)}
        names.update(self._region_names(given))
        if self._filters.tensors and not _fits_tensor(names, self._filters.tensors):
            return False
        if not self._filters.modules:
            return True
        modules = {owner_of(name) for name in names}
        for number in place.modules:
            modules.update(names_of_module(number))
        return is_inside(modules, self._filters.modules)

    def _region_names(self, given: Iterable[str]) -> Iterator[str]:
        for name in given:
            # A name may tell the place and what lies there: "ipg_buffer[0], gradient of x.weight".
            for part in {name, *name.split(", ")}:
                yield part
                yield from self._aliases.get(part, ())


def joined(shown: Finding, other: Finding) -> Finding:
    """One finding for two places of a pair, with the names and bytes of the first."""
    tries = sum_tries(shown.tries, other.tries)
    return replace(shown, count=shown.count + other.count, tries=tries)


def matches(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether a pattern fits a name; indices are in brackets, which stand for themselves."""
    literal = [pattern.replace("[", "[[]") for pattern in patterns]
    return any(fnmatchcase(name, pattern) for name in names for pattern in literal)


def _fits_tensor(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether a pattern fits a name, or the name of what it is the gradient of."""
    given = set(names)
    return matches(given | {name.removeprefix(_GRADIENT) for name in given}, patterns)


def is_inside(modules: Iterable[str], patterns: Iterable[str]) -> bool:
    """Whether a pattern fits one of these modules, or one that it is part of."""
    around: set[str] = set()
    for module in modules:
        parts = module.split(".")
        around.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return matches(around, patterns)


def owner_of(tensor: str) -> str:
    """The module that a parameter, a buffer or a gradient of this name belongs to."""
    return tensor.removeprefix(_GRADIENT).rpartition(".")[0]
