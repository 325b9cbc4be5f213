"""Typed access to the fields of one JSON object; what does not fit is named in the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_ABSENT = object()


class FieldError(ValueError):
    """A field is absent or of the wrong type; the message names it with its path."""


class Fields:
    """A JSON object whose fields are read with their expected type.

    Args:
        values: The object.
        where: Path of the object inside its record, for messages.
    """

    def __init__(self, values: Mapping[str, object], where: str = "") -> None:
        self._values = values
        self._where = where

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer; true and false are none."""
        value = self._get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "an integer", value)
        return value

    def count(self, name: str, *, at_most: int) -> int:
        """Return an integer from 0 to `at_most`; what is larger would only fill the memory."""
        value = self.integer(name)
        if not 0 <= value <= at_most:
            raise self._wrong(name, f"an integer from 0 to {at_most}", value)
        return value

    def number(self, name: str) -> float:
        """A number, whole or not."""
        value = self._get(name, None)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self._wrong(name, "a number", value)
        return float(value)

    def truth(self, name: str, default: bool | None = None) -> bool:
        """A boolean."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def optional_integer(self, name: str) -> int | None:
        """An integer, or None for an absent or null field."""
        return None if self._values.get(name) is None else self.integer(name)

    def child(self, name: str) -> Fields:
        """An object."""
        value = self._get(name, None)
        if not isinstance(value, Mapping):
            raise self._wrong(name, "an object", value)
        return Fields(value, self._path(name))

    def optional_child(self, name: str) -> Fields | None:
        """An object, or None for an absent or null field."""
        return None if self._values.get(name) is None else self.child(name)

    def children(self, name: str) -> tuple[Fields, ...]:
        """A list of objects; an absent or null one is empty."""
        items = self.items(name)
        path = self._path(name)
        result = []
        for index, item in enumerate(items):
            if not isinstance(item, Mapping):
                raise self._wrong(f"{name}[{index}]", "an object", item)
            result.append(Fields(item, f"{path}[{index}]"))
        return tuple(result)

    def items(self, name: str) -> Sequence[object]:
        """The list called `name`; an absent or null one is empty."""
        value = self._values.get(name)
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            raise self._wrong(name, "a list", value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; an absent or null one is empty."""
        result = []
        for index, item in enumerate(self.items(name)):
            if not isinstance(item, str):
                raise self._wrong(f"{name}[{index}]", "a string", item)
            result.append(item)
        return tuple(result)

    def optional_integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None for an absent or null field."""
        if self._values.get(name) is None:
            return None
        result = []
        for index, item in enumerate(self.items(name)):
            if not isinstance(item, int) or isinstance(item, bool):
                raise self._wrong(f"{name}[{index}]", "an integer", item)
            result.append(item)
        return tuple(result)

    def one_of(self, name: str, *allowed: str) -> str:
        """One of the allowed strings."""
        value = self.text(name)
        if value not in allowed:
            raise self._wrong(name, " or ".join(allowed), value)
        return value

    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return tuple(self._values)

    def _get(self, name: str, default: object) -> object:
        value = self._values.get(name, _ABSENT)
        if value is not _ABSENT:
            return value
        if default is None:
            raise FieldError(f"field {self._path(name)!r} is missing")
        return default

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def _wrong(self, name: str, expected: str, value: object) -> FieldError:
        shown = repr(value)
        if len(shown) > 60:
            shown = shown[:57] + "..."
        return FieldError(f"field {self._path(name)!r} is {shown}; expected {expected}")
