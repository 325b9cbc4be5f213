"""Lets torch's autograd threads finish before the interpreter goes away.

After `backward()` has returned, the autograd thread still drops the last reference to its graph
task, for which it takes the GIL. On a GPU the program's next synchronisation gives it that time.
On the virtual GPU nothing takes any, so a program that ends right after `backward()` finalises the
interpreter first: the thread is then ended inside a destructor, and the process aborts. Python
3.11 ends threads that ask a finalising interpreter for the GIL; from 3.14 on it lets them hang.
"""

from __future__ import annotations

import time
from pathlib import Path

_THREAD_NAME = "pt_autograd_"
_PAUSE_S = 0.001
_LONGEST_WAIT_S = 1.0


def let_them_finish() -> None:
    """Wait without the GIL until no autograd thread is running; registered with `atexit`.

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
    for task in Path("/proc/self/task").iterdir():
        try:
            # "tid (name) state …", where a name may hold spaces and parentheses
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # the thread has ended meanwhile
            continue
        if name.startswith(_THREAD_NAME):
            states.append(rest.split()[0])
    return states
