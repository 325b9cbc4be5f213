"""Says what this process's virtual GPU is: devices, schedule, work not run yet."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from streamguard.errors import UsageError
from streamguard.vgpu import load


@dataclass(frozen=True, slots=True)
class Description:
    """The virtual GPU at one moment.

    Attributes:
        devices: Devices that the program sees.
        schedule: Token that repeats the schedule in another process.
        pending_ops: Ops issued and not run.
        launches: Kernel launches issued so far, captured ones included.
        rescues: Times work ran only because the process slept; with rescues a run is not
            reproducible from its token.
    """

    devices: int
    schedule: str
    pending_ops: int
    launches: int
    rescues: int

    @property
    def is_reproducible(self) -> bool:
        """Whether the schedule alone decided the order so far."""
        return self.rescues == 0


def describe() -> Description:
    """Describe the virtual GPU of this process.

    Raises:
        UsageError: The process does not run on the virtual GPU.
    """
    if not load.is_loaded():
        raise UsageError("this process does not run on the virtual GPU: set STREAMGUARD_VGPU")
    runtime = ctypes.CDLL(None)
    runtime.streamguard_vgpu_schedule.restype = ctypes.c_char_p
    runtime.streamguard_vgpu_launch_count.restype = ctypes.c_ulonglong
    runtime.streamguard_vgpu_rescues.restype = ctypes.c_ulonglong
    return Description(
        devices=runtime.streamguard_vgpu_device_count(),
        schedule=runtime.streamguard_vgpu_schedule().decode(),
        pending_ops=runtime.streamguard_vgpu_pending(),
        launches=runtime.streamguard_vgpu_launch_count(),
        rescues=runtime.streamguard_vgpu_rescues(),
    )
