"""What the start-up file in site-packages runs in every Python process of a watched program.

It runs before the program's first line, in launchers and helper processes as well, so it loads
next to nothing: neither torch nor an extension. Everything else waits for the program's own
`import torch`.
"""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from streamguard.config import Config, parse
from streamguard.errors import StreamguardError
from streamguard.import_hooks import after_import

USAGE_STATUS = 2


# Python reads the start-up files of a virtual environment twice (site.main: for the environment and
# again among all prefixes), so the line in ours runs twice.
@cache
def start() -> None:
    """Prepare this process as the STREAMGUARD variables ask; later calls do nothing.

    A wrong variable, or a virtual GPU that cannot be loaded, ends the process with status 2 and a
    message: going on would mean to run unwatched, or on other devices, without saying so.
    """
    if _is_own_command():
        return
    try:
        config = parse(os.environ)
        is_asked = config.active or config.records_collectives or config.reducer is not None
        if not is_asked and config.vgpu_devices is None:
            return
        _start(config)
    except StreamguardError as error:
        # sys.exit in a start-up file ends in a fatal interpreter error that hides the message.
        os.write(2, f"streamguard: {error}\n".encode())
        os._exit(USAGE_STATUS)


def _start(config: Config) -> None:
    if (config.active or config.records_collectives) and config.run is None:
        if config.exit_status and config.active:
            _restart_under_run(config)
        _become_root(config)
    if config.vgpu_devices is not None:
        # Before the hooks: overrides stack, and what observes must be outermost.
        load_virtual_gpu(config.vgpu_devices, with_values=config.vgpu_values)
    if config.reducer == "repair":
        after_import("deepspeed", _repair_reducer)
    if config.reducer == "own":
        after_import("deepspeed", _replace_reducer)
    if config.active:
        after_import("torch", _watch)
    if config.records_collectives:
        after_import("torch", _record_collectives)


def load_virtual_gpu(devices: int, *, with_values: bool) -> None:
    """Put virtual devices in the place of the machine's own, before torch is imported.

    Raises:
        UsageError: torch is imported already, or the replacement libraries cannot be loaded.
    """
    from streamguard.vgpu.load import load

    load(devices)
    after_import("torch", _install_values if with_values else _leave_out_values)


def _install_values(_: ModuleType) -> None:
    from streamguard.vgpu.values import install

    install()


def _leave_out_values(_: ModuleType) -> None:
    from streamguard.vgpu.values import leave_out

    leave_out()


def _repair_reducer(_: ModuleType) -> None:
    from streamguard.deepspeed.repair.install import register_import_hooks

    register_import_hooks()


def _replace_reducer(_: ModuleType) -> None:
    from streamguard.deepspeed.own.install import register_import_hooks

    register_import_hooks()


def _watch(_: ModuleType) -> None:
    from streamguard.adapters import register_adapters
    from streamguard.program import start_from_environment

    start_from_environment()
    register_adapters()


def _record_collectives(_: ModuleType) -> None:
    from streamguard.collectives.recording import start_from_environment

    start_from_environment()


def _become_root(config: Config) -> None:
    """Name the run for this process and all its children."""
    from streamguard.identity import new_run_id, run_id_of_step

    run = run_id_of_step(os.environ) or new_run_id()
    output = config.output if config.output is not None else Path(f"streamguard-{run}")
    os.environ["STREAMGUARD_RUN"] = run
    os.environ["STREAMGUARD_OUTPUT"] = str(output.absolute())
    if config.trace is not None:
        os.environ["STREAMGUARD_TRACE"] = str(config.trace.absolute())
    if config.active:
        atexit.register(_report_if_nobody_did, os.getpid())


def _report_if_nobody_did(root_pid: int) -> None:
    """In a launcher: print what local rank 0 could not, because it was killed or never was."""
    if os.getpid() != root_pid:
        return
    if "torch" not in sys.modules and not Path(os.environ["STREAMGUARD_OUTPUT"]).is_dir():
        # Neither this process nor any that it started had to do with torch.
        return
    from streamguard.program import report_if_nobody_did

    report_if_nobody_did()


def _restart_under_run(config: Config) -> None:
    """Run the same command under `streamguard run`, whose exit status tells what was found.

    A process cannot change its status by what was found without knowing the status it is about to
    end with, and Python does not tell; under a launcher the launcher's status counts anyway.
    """
    command = [sys.executable, *sys.orig_argv[1:]]
    options = [] if config.vgpu_devices is None else ["--vgpu", str(config.vgpu_devices)]
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ("STREAMGUARD", "STREAMGUARD_VGPU", "STREAMGUARD_EXIT")
    }
    if config.mode != "watch":
        options.append(f"--{config.mode}")
    own = [sys.executable, "-m", "streamguard.cli.main", "run", *options, "--", *command]
    os.execve(sys.executable, own, environ)


def _is_own_command() -> bool:
    """Whether this process is the streamguard command itself, which is never watched."""
    arguments = iter(sys.orig_argv[1:])
    for argument in arguments:
        if argument == "-m":
            return next(arguments, "") == "streamguard.cli.main"
        if argument in ("-W", "-X"):
            next(arguments, "")
        elif argument == "-c" or not argument.startswith("-"):
            return Path(argument).name == "streamguard"
    return False
