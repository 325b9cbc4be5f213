"""Reads what a shared library or object file needs and defines, from its ELF tables."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_SHT_SYMTAB, _SHT_DYNAMIC, _SHT_DYNSYM = 2, 6, 11
_SHT_GNU_VERNEED, _SHT_GNU_VERSYM = 0x6FFFFFFE, 0x6FFFFFFF
_DT_NULL, _DT_NEEDED = 0, 1
_LOCAL, _HIDDEN_VISIBILITIES = 0, (1, 2)


@dataclass(frozen=True, slots=True)
class Import:
    """One undefined dynamic symbol; version and library are empty where it has no version."""

    name: str
    version: str
    library: str


@dataclass(frozen=True, slots=True)
class _Section:
    type: int
    offset: int
    size: int
    link: int
    info: int
    entry: int


class ElfFile:
    """A 64-bit little-endian ELF file, mapped: large libraries are not read whole.

    Raises:
        ValueError: The file is no such ELF file.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
        (offset,) = struct.unpack_from("<Q", self._data, 0x28)
        size, count = struct.unpack_from("<HH", self._data, 0x3A)
        self._sections = [self._section(offset + i * size) for i in range(count)]

    def _section(self, at: int) -> _Section:
        fields = struct.unpack_from("<IIQQQQIIQQ", self._data, at)
        return _Section(fields[1], fields[4], fields[5], fields[6], fields[7], fields[9])

    def _first(self, section_type: int) -> _Section | None:
        return next((s for s in self._sections if s.type == section_type), None)

    def _text(self, strings: _Section, at: int) -> str:
        begin = strings.offset + at
        return self._data[begin : self._data.find(b"\0", begin)].decode()

    def needed(self) -> list[str]:
        """Sonames of the libraries it is linked against."""
        dynamic = self._first(_SHT_DYNAMIC)
        if dynamic is None:
            return []
        names = []
        for at in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
            tag, value = struct.unpack_from("<QQ", self._data, at)
            if tag == _DT_NULL:
                break
            if tag == _DT_NEEDED:
                names.append(self._text(self._sections[dynamic.link], value))
        return names

    def imports(self) -> list[Import]:
        """Undefined dynamic symbols."""
        symbols = self._first(_SHT_DYNSYM)
        if symbols is None:
            return []
        versions = self._needed_versions()
        versym = self._first(_SHT_GNU_VERSYM)
        strings = self._sections[symbols.link]
        found = []
        for index in range(1, symbols.size // 24):
            name, _, _, section = struct.unpack_from(
                "<IBBH", self._data, symbols.offset + index * 24
            )
            if section != 0 or name == 0:
                continue
            number = 0
            if versym is not None:
                (number,) = struct.unpack_from("<H", self._data, versym.offset + index * 2)
            version, library = versions.get(number & 0x7FFF, ("", ""))
            found.append(Import(self._text(strings, name), version, library))
        return found

    def _needed_versions(self) -> dict[int, tuple[str, str]]:
        """Version index -> (version name, soname)."""
        section = self._first(_SHT_GNU_VERNEED)
        versions: dict[int, tuple[str, str]] = {}
        if section is None:
            return versions
        strings = self._sections[section.link]
        at = section.offset
        for _ in range(section.info):
            _, count, file, aux, next_need = struct.unpack_from("<HHIII", self._data, at)
            library = self._text(strings, file)
            entry = at + aux
            for _ in range(count):
                _, _, index, name, next_aux = struct.unpack_from("<IHHII", self._data, entry)
                versions[index] = (self._text(strings, name), library)
                entry += next_aux
            at += next_need
        return versions

    def definitions(self) -> set[str]:
        """Global, visible symbols that an object file defines."""
        symbols = self._first(_SHT_SYMTAB)
        if symbols is None:
            return set()
        strings = self._sections[symbols.link]
        found = set()
        for index in range(1, symbols.size // 24):
            name, info, other, section = struct.unpack_from(
                "<IBBH", self._data, symbols.offset + index * 24
            )
            is_local = info >> 4 == _LOCAL
            if section == 0 or is_local or other & 3 in _HIDDEN_VISIBILITIES:
                continue
            found.add(self._text(strings, name))
        return found
