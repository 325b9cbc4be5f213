"""Which Python lines a person should see: the own code first, insides of torch folded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from streamguard.report.model import Frame

_INTERNAL = re.compile(
    r"(?:^|/)(?:site|dist)-packages/(?:torch|triton|pluggy|_pytest|pytest|streamguard)/"
    r"|(?:^|/)lib/python3\.\d+/(?!(?:site|dist)-packages/)"
    r"|^<frozen "
    r"|(?:^|/)streamguard/(?:hooks|deepspeed|session\.py|program\.py|api\.py|autostart\.py)"
)
_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/(?=.)")


@dataclass(frozen=True, slots=True)
class ShownFrames:
    """Frames to print, innermost first, and how many are left out."""

    shown: tuple[Frame, ...]
    folded: int


def is_internal(frame: Frame) -> bool:
    """Whether a frame belongs to torch, Python, the test runner or streamguard itself."""
    return _INTERNAL.search(frame.file) is not None


def fold(frames: tuple[Frame, ...]) -> ShownFrames:
    """Leave out internal frames; if there are only such frames, keep the outermost one."""
    own = tuple(frame for frame in frames if not is_internal(frame))
    if not own:
        own = frames[-1:]
    return ShownFrames(own, len(frames) - len(own))


def own_line(frames: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame outside torch and Python, None where no frame was recorded."""
    shown = fold(frames).shown
    return shown[0] if shown else None


def short_file(file: str, *, base: str) -> str:
    """A path as a person writes it: inside a package, relative to `base`, or unchanged."""
    shortened = _PACKAGES.sub("", file)
    if shortened != file:
        return shortened
    path = PurePath(file)
    return str(path.relative_to(base)) if base and path.is_relative_to(base) else file
