"""Every error that streamguard raises on purpose.

`StreamguardError` is the common base, so that a caller can tell our refusals from its own errors.
Each error carries the values it speaks of as fields; tests look at those and not at the wording.
"""

from __future__ import annotations


class StreamguardError(Exception):
    """Base of every error that streamguard raises on purpose."""


class UsageError(StreamguardError):
    """A call, an option or a variable asks for something that does not exist or cannot work."""


class ConfigurationError(UsageError):
    """One STREAMGUARD variable has a value that is not understood.

    Args:
        variable: Name of the environment variable.
        value: The value that was found.
        expected: What would have been accepted, as part of a sentence.
    """

    def __init__(self, variable: str, value: str, expected: str) -> None:
        super().__init__(f"{variable}={value!r} is not understood; expected {expected}")
        self.variable = variable
        self.value = value
        self.expected = expected


# Works for a checkout and for an installed package; builds anew whatever was built before.
REBUILD_COMMAND = (
    "pip install --no-build-isolation --no-deps --force-reinstall -e . (in streamguard's sources)"
)


class MissingBuildError(StreamguardError):
    """A compiled part of streamguard is absent or was built for another torch.

    Args:
        part: What is missing, such as "streamguard._hooks".
        reason: What is wrong with it.
        command: The command that builds it.
    """

    def __init__(self, part: str, reason: str, command: str = REBUILD_COMMAND) -> None:
        super().__init__(f"{part}: {reason}. Build it with: {command}")
        self.part = part
        self.reason = reason
        self.command = command


class UnsupportedTorchError(StreamguardError):
    """The installed torch cannot be watched, however streamguard is built.

    Args:
        part: What needs another torch, such as "streamguard._hooks".
        reason: What is wrong with this one.
    """

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}. Install the CUDA build of torch, then streamguard")
        self.part = part
        self.reason = reason


class UnsupportedAllocatorError(StreamguardError):
    """torch's CUDA memory comes from an allocator whose blocks cannot be followed.

    Args:
        setting: What selected it, such as "PYTORCH_NO_CUDA_MEMORY_CACHING=1".
    """

    def __init__(self, setting: str) -> None:
        super().__init__(
            f"{setting}: this allocator does not tell which blocks it gives out again, so races "
            "could not be told from reuse. Run without this setting to be watched"
        )
        self.setting = setting


class UnsupportedReducerError(StreamguardError):
    """STREAMGUARD_REDUCER asks for something that this program's DeepSpeed cannot be given.

    Args:
        reducer: Value of the variable.
        found: What the program has, such as "ZeRO stage 3 with DeepSpeedZeroOptimizer_Stage3".
        limit: What this reducer can do, as the rest of a sentence that begins with its name.
    """

    def __init__(self, reducer: str, found: str, limit: str) -> None:
        super().__init__(
            f"STREAMGUARD_REDUCER={reducer} {limit}; this program has {found}. Nothing was "
            "changed: unset the variable to train with DeepSpeed's own reducer"
        )
        self.reducer = reducer
        self.found = found
        self.limit = limit


class RecordError(StreamguardError):
    """One record of a result file is damaged or of a schema that this version cannot read.

    Args:
        path: The file, as it was given.
        line: Number of the line, from 1.
        reason: What is wrong with the record.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}:{line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason


class TraceError(UsageError):
    """An op trace is damaged, of a newer version, or no op trace at all.

    Args:
        path: The file, as it was given.
        byte: Where in the file, from 0.
        reason: What is wrong there.
        batch: Number of the record batch, from 0, or None outside of one.
        row: Number of the row in that batch, from 0, or None.
    """

    def __init__(
        self,
        path: str,
        byte: int,
        reason: str,
        *,
        batch: int | None = None,
        row: int | None = None,
    ) -> None:
        place = f"byte {byte}"
        if batch is not None:
            place += f", batch {batch}"
        if row is not None:
            place += f", row {row}"
        super().__init__(f"{path}: {place}: {reason}")
        self.path = path
        self.byte = byte
        self.reason = reason
        self.batch = batch
        self.row = row


class CallRecordError(StreamguardError):
    """The files of one rank's collectives are damaged.

    Attributes:
        path: The ring file.
        reason: What is wrong with it, or with the names beside it.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}; leave this file out")


class DumpError(StreamguardError):
    """A Flight Recorder dump is damaged, or holds what is not admitted.

    Args:
        path: The file.
        reason: What is wrong with it.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DesyncError(StreamguardError):
    """Ranks wait for each other in vain; raised in the main thread where --on-hang asks for it."""
