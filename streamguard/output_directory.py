"""Whether the ranks of a run can write their results."""

from __future__ import annotations

import os
from pathlib import Path

_PROBE_BYTES = 1 << 16  # more than a file system keeps back for names


def problem_of(directory: Path) -> str | None:
    """Write a probe file and remove it, and the directory where this call made it.

    Returns:
        What the system says is wrong, or None where writing works.
    """
    probe = directory / f".probe-{os.getpid()}"
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            with probe.open("wb") as file:
                file.write(bytes(_PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)
            if is_new:
                directory.rmdir()
    except OSError as error:
        return error.strerror or str(error)
    return None
