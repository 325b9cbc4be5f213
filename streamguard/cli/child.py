"""Runs the wrapped command: passes signals on and gives its status as a shell does."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

_FORWARDED = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}


def run_command(
    command: Sequence[str], environ: Mapping[str, str], *, output: IO[bytes] | None = None
) -> int:
    """Run a command to its end.

    Signals sent to this process go to the command. Those that the terminal sends (Ctrl-C) reach the
    command without us and are not sent twice.

    Args:
        command: Program and arguments.
        environ: Its environment.
        output: Receives standard output and standard error; without it they are ours.

    Returns:
        The command's exit status; 128 + N if signal N killed it.

    Raises:
        OSError: the command cannot be started.
    """
    handled = {*_FORWARDED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    try:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            # The command gets the mask that it would have had without us.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        )
        while child.poll() is None:
            received = signal.sigwaitinfo(handled)
            # A positive code means that the kernel sent it: SIGCHLD, or the terminal to the group.
            if received.si_signo != signal.SIGCHLD and received.si_code <= 0:
                child.send_signal(received.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    status = child.returncode
    return 128 - status if status < 0 else status
