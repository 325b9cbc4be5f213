"""Values on the virtual GPU: every device op also runs its CPU kernel over the same bytes.

The device's kernels only keep order; this gives the program its numbers. Needs the virtual GPU's
libraries (`streamguard.vgpu.load.load`) and an imported torch.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

from streamguard.errors import MissingBuildError, StreamguardError

_PART = "streamguard.vgpu._values"

# Exit status of a process whose twins failed without any later call to tell: EX_SOFTWARE.
LOST_ERROR_STATUS = 70


class ValuesError(StreamguardError):
    """A device op could not be computed on the virtual GPU."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator that has a kernel on the device.

    Attributes:
        name: "aten::name.overload".
        treatment: How its values come about: "twin", "at issue", "dry run", "copy",
            "error check", "made of ops" or "not computed".
        has_substitute: The CPU kernel is ours, because torch's does not fit or does not exist.
    """

    name: str
    treatment: str
    has_substitute: bool

    @property
    def is_computed(self) -> bool:
        """Whether the op's results are computed."""
        return self.treatment != "not computed"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was computed since the process started.

    Attributes:
        twins: Ops that ran on their stream beside the device's kernel.
        at_issue: Ops computed when they were called, because their result's size depends on values.
        dry_runs: Ops whose result's shape came from a run over zeros.
        not_computed: Calls whose results are undefined, by operator.
    """

    twins: int
    at_issue: int
    dry_runs: int
    not_computed: Mapping[str, int]


def install() -> Callable[[], None]:
    """Make every device op of this process compute its values, from now on.

    Registers the overrides at the first call; torch's dispatcher cannot give the kernels back, so
    the returned undo only makes them pass on, and a second call makes them compute again. Turns off
    cuDNN and the fused attention kernels, which have no twin, so that torch takes the paths both
    devices have. Where STREAMGUARD_VGPU_VALUES is 0 it does what `leave_out` does.

    Returns:
        Function that turns the values off.

    Raises:
        MissingBuildError: the extension is absent or was built for another torch.
        RuntimeError: the process has not loaded the virtual GPU.
    """
    if os.environ.get("STREAMGUARD_VGPU_VALUES") == "0":
        return leave_out()
    extension = _load()
    if not extension.installed_ops():
        _withdraw_python_kernels()
        extension.install()
        atexit.register(_report_lost_error)
    extension.set_active(True)
    return lambda: extension.set_active(False)


def leave_out() -> Callable[[], None]:
    """Prepare torch for a run without values; the undo restores it.

    Turns off cuDNN and its attention: their descriptions, sizes and algorithms do not exist here,
    and torch cannot go on without them.
    """
    import torch

    was_enabled = torch._C._get_cudnn_enabled()
    had_attention = torch._C._get_cudnn_sdp_enabled()

    def switch(*, cudnn: bool, attention: bool) -> None:
        torch._C._set_cudnn_enabled(cudnn)
        torch._C._set_sdp_use_cudnn(attention)

    switch(cudnn=False, attention=False)
    return lambda: switch(cudnn=was_enabled, attention=had_attention)


def coverage() -> Coverage:
    """Return what was computed so far, and what was not."""
    extension = _load()
    counts = extension.counts()
    return Coverage(
        twins=counts["twins"],
        at_issue=counts["at_issue"],
        dry_runs=counts["dry_runs"],
        not_computed=dict(extension.not_computed()),
    )


def operators() -> tuple[Operator, ...]:
    """Return every operator with a kernel on the device, sorted by name; empty before `install`."""
    return tuple(Operator(*entry) for entry in _load().installed_ops())


def raise_pending_error() -> None:
    """Raise the failure of a twin that no later op has reported yet.

    Raises:
        ValuesError: an op could not be computed; the message names it.
    """
    message = _load().take_error()
    if message is not None:
        raise ValuesError(message)


def _load() -> ModuleType:
    import torch

    try:
        extension = importlib.import_module(_PART)
    except ImportError as error:
        raise MissingBuildError(_PART, str(error)) from error
    running = torch.__version__.split("+")[0]
    if extension.built_for_torch.split("+")[0] != running:
        reason = f"built for torch {extension.built_for_torch}, but torch {running} is running"
        raise MissingBuildError(_PART, reason)
    return extension


def _withdraw_python_kernels() -> None:
    """Take torch's Triton and CuTe kernels off the CUDA key: they compile for a real device.

    torch 2.14 registers them from Python at import, in front of its own CUDA kernels (bmm, topk,
    norms). Unneeded once they can be switched off with a public function.
    """
    try:
        registry = importlib.import_module("torch._native.registry")
    except ImportError:
        return  # torch before 2.14 has none
    registry.deregister_op_overrides(disable_dispatch_keys="CUDA")


def _report_lost_error() -> None:
    """End the process with an error if a twin failed after the last call that could have told.

    An exception in an atexit function would not change the exit status.
    """
    message = _load().take_error()
    if message is None:
        return
    sys.stdout.flush()
    sys.stderr.write(f"streamguard: at exit: {message}\n")
    sys.stderr.flush()
    os._exit(LOST_ERROR_STATUS)
