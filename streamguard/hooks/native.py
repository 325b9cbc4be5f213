"""Loads the native hooks and refuses a torch they were not built for."""

from __future__ import annotations

from streamguard.errors import MissingBuildError, UnsupportedTorchError

PART = "streamguard._hooks"


def load() -> None:
    """Import torch, and `streamguard._hooks` beside it.

    The hooks use torch's internal layouts, which hold for one release and one CUDA build of it.

    Raises:
        UnsupportedTorchError: torch is a CPU build.
        MissingBuildError: the module was not built, or for another torch.
    """
    import torch  # its libraries must be loaded before ours

    if torch.version.cuda is None:
        reason = f"torch {torch.__version__} is a CPU build, which has no CUDA streams to watch"
        raise UnsupportedTorchError(PART, reason)
    try:
        from streamguard import _hooks
    except ImportError as error:
        raise MissingBuildError(PART, f"cannot be loaded ({error})") from error
    check_version(built_for=_hooks.BUILT_FOR_TORCH, installed=str(torch.__version__))


def check_version(*, built_for: str, installed: str) -> None:
    """Compare the torch that the hooks were built for with the one that runs.

    Raises:
        MissingBuildError: they differ.
    """
    if built_for != installed:
        reason = f"was built for torch {built_for}, and this is torch {installed}"
        raise MissingBuildError(PART, reason)
