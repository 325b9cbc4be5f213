"""Names for bytes and streams, regions whose accesses are listed, and the training step."""

from __future__ import annotations

from collections.abc import Callable

# The native module needs torch loaded before it, so functions import it; `import a.b as c` finds a
# loaded module without a Python call, which `from a import b` makes.

# Told of every name as well, with the bytes it is for: the record of collectives keeps them.
Listener = Callable[[int, int, str], None]
name_listeners: list[Listener] = []


def listen_to_names(listener: Listener) -> None:
    """Call `listener(begin, end, name)` for every region that is named from now on."""
    name_listeners.append(listener)


def name_region(begin: int, end: int, name: str, since_op: int) -> None:
    """Name the bytes [begin, end) from op `since_op` on.

    A later name replaces it for later ops; a new block at the same bytes has no name.

    Args:
        begin: First byte's address.
        end: Address after the last byte.
        name: What a person calls it, such as "ipg_buffer[0]".
        since_op: Number of the first op it holds for, as `current_op` counts.
    """
    import streamguard._hooks as _hooks

    _hooks.name_region(begin, end, name, since_op)
    for listener in name_listeners:
        listener(begin, end, name)


def name_stream(device: int, handle: int, name: str) -> None:
    """Name a stream by its role; it need not have been used yet.

    Args:
        device: CUDA device index.
        handle: The `cudaStream_t`, `torch.cuda.Stream.cuda_stream`; 0 is the default stream.
        name: Such as "reduction_stream".
    """
    import streamguard._hooks as _hooks

    _hooks.name_stream(device, handle, name)


def watch(begin: int, end: int, name: str) -> None:
    """List every access to the bytes [begin, end) from now on; `watched` returns them."""
    import streamguard._hooks as _hooks

    _hooks.watch(begin, end, name)


def current_op() -> int:
    """Return the number of the newest op, from 1; 0 before the first."""
    import streamguard._hooks as _hooks

    return _hooks.current_op()


def set_step(step: int) -> None:
    """Say that the program is now in training step `step`; findings carry it."""
    import streamguard._hooks as _hooks

    _hooks.set_step(step)


def note(text: str) -> None:
    """Put a text into the op trace, where there is one; nothing else happens."""
    import streamguard._hooks as _hooks

    _hooks.note(text)
