"""Reads pickles of plain containers, strings and numbers, whoever wrote them."""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path

from streamguard.errors import DumpError

_MEMO_WRITES = ("PUT", "BINPUT", "LONG_BINPUT")


class _PlainUnpickler(pickle.Unpickler):
    """Admits dicts, lists, tuples, strings, numbers and None; names what it refuses.

    Those are built by opcodes alone. Whatever else a pickle can do begins with naming a global.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(data))
        self._path = path

    def find_class(self, module_name: str, global_name: str) -> object:
        """Refuse every global."""
        raise DumpError(str(self._path), f"names {module_name}.{global_name}, which is refused")

    def persistent_load(self, pid: object) -> object:
        """Refuse references to outside objects."""
        what = repr(pid) if isinstance(pid, str) else f"of a {type(pid).__name__}"
        raise DumpError(str(self._path), f"refers to the outside object {what}, which is refused")


def load_plain(path: Path) -> object:
    """Read a pickle of plain containers, strings and numbers.

    Takes memory by the size of the file, whatever lengths the file claims.

    Raises:
        DumpError: the file is damaged, or holds anything else.
    """
    try:
        data = path.read_bytes()
        _refuse_claims(data, path)
        return _PlainUnpickler(data, path).load()
    except DumpError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise DumpError(str(path), f"is no readable dump ({error})") from error


def _refuse_claims(data: bytes, path: Path) -> None:
    """Refuse lengths and memo numbers that the file cannot have: pickle allocates first."""
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _MEMO_WRITES and not 0 <= int(argument or 0) < len(data):
                reason = f"claims memo entry {argument} in {len(data)} bytes, which is refused"
                raise DumpError(str(path), reason)
            if opcode.name in ("GLOBAL", "INST"):
                return  # the unpickler refuses it by name, before anything behind it
    except ValueError as error:
        raise DumpError(str(path), f"is no readable dump ({error})") from error
