"""Ends a program on the virtual GPU as it would end on a GPU; registered with `atexit`.

Two things that a GPU gets done by itself are done here, before the interpreter and torch's
libraries are torn down:

* Queued work runs. A GPU has finished it long before, and torch's NCCL watchdog, which looks at
  unfinished collectives ten times a second, has forgotten them; else it looks at them while torch's
  static objects are destroyed, and the process aborts.
* Autograd's thread drops the last reference to its graph task, for which it takes the GIL after
  `backward()` has returned. A program that ends right then would finalise the interpreter first,
  and the thread would be ended inside a destructor, which aborts the process: Python 3.11 ends
  threads that ask a finalising interpreter for the GIL; from 3.14 on it lets them hang.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

# Longest time without any progress before what is queued is given up.
_PATIENCE_MS = 5000
_AUTOGRAD = "pt_autograd_"
_WATCHDOG = "pt_nccl_watchdg"
_PAUSE_S = 0.001
_LONGEST_WAIT_S = 1.0
# Sleeps that a watchdog must begin until it has looked at all works: it may be within a look, and a
# lock may have put it to sleep once.
_WATCHDOG_SLEEPS = 3


def finish() -> None:
    """Run what is queued, then give torch's threads the time to take notice."""
    ctypes.CDLL(None).streamguard_vgpu_finish(ctypes.c_long(_PATIENCE_MS))
    _let_watchdogs_look()
    _let_autograd_finish()


def _let_watchdogs_look() -> None:
    begun = _sleeps_of_watchdogs()
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < deadline:
        now = _sleeps_of_watchdogs()
        if all(now[task] - begun.get(task, 0) >= _WATCHDOG_SLEEPS for task in now):
            return
        time.sleep(_PAUSE_S)


def _sleeps_of_watchdogs() -> dict[str, int]:
    """How often each watchdog of a process group has gone to sleep, by kernel id."""
    sleeps = {}
    for task in _threads(_WATCHDOG):
        try:
            status = (task / "status").read_text()
        except OSError:  # the thread has ended meanwhile
            continue
        sleeps[task.name] = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return sleeps


def _let_autograd_finish() -> None:
    """Wait without the GIL until no autograd thread is running.

    A thread that waits for the GIL gets it during the first pause and is seen running, or done, by
    the second look.
    """
    deadline = time.monotonic() + _LONGEST_WAIT_S
    looks_without_running = 0
    while looks_without_running < 2 and time.monotonic() < deadline:
        states = _states()
        if not states:
            return
        time.sleep(_PAUSE_S)
        looks_without_running = 0 if "R" in _states() else looks_without_running + 1


def _states() -> list[str]:
    """Scheduler states of the autograd threads, such as R (running) and S (sleeping)."""
    states = []
    for task in _threads(_AUTOGRAD):
        try:
            # "tid (name) state …", where a name may hold spaces and parentheses
            states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:  # the thread has ended meanwhile
            continue
    return states


def _threads(name: str) -> list[Path]:
    """Folders of this process's threads whose name begins so."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().startswith(name):
                found.append(task)
        except OSError:  # the thread has ended meanwhile
            continue
    return found
