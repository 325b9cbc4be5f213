"""pytest plugin: `assert_no_races` watches a test, `--streamguard-vgpu N` runs it without a GPU.

Loading this module costs nothing: the first test that asks for them loads torch and the hooks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamguard.report.model import Report
    from streamguard.session import Session

_OPTION = "--streamguard-vgpu"
_CONFIRM = "--streamguard-confirm"
_TENSORS = "--streamguard-tensors"
_MODULES = "--streamguard-modules"
_VARIABLE = "STREAMGUARD_VGPU"

_session_key: pytest.StashKey[Session] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("streamguard", "CUDA stream and event races")
    group.addoption(
        _OPTION,
        type=int,
        metavar="N",
        help="run on N virtual devices instead of GPUs; set before torch is imported",
    )
    group.addoption(
        _CONFIRM,
        action="store_true",
        help="try whether races change bytes: delay their first op when the pair comes again",
    )
    group.addoption(
        _TENSORS,
        default="",
        metavar="NAME,NAME",
        help="only races on regions, parameters and gradients of these names fail a test",
    )
    group.addoption(
        _MODULES,
        default="",
        metavar="NAME,NAME",
        help="only races in modules of these names fail a test",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the virtual GPU before a conftest file can import torch."""
    devices = early_config.known_args_namespace.streamguard_vgpu
    if devices is None:
        return
    already = os.environ.get(_VARIABLE)
    if already == str(devices):
        # The start-up file has loaded it.
        return
    if already:
        raise pytest.UsageError(
            f"{_OPTION} {devices}: this process has {already} virtual devices ({_VARIABLE})"
        )
    if "torch" in sys.modules:
        raise pytest.UsageError(
            f"{_OPTION} {devices}: torch is imported already, so it keeps the real CUDA libraries. "
            f"Set {_VARIABLE}={devices} in the environment instead, or remove the early import"
        )
    from streamguard.autostart import load_virtual_gpu
    from streamguard.config import parse
    from streamguard.errors import StreamguardError

    try:
        # Processes that a test starts are to have the same devices.
        os.environ[_VARIABLE] = str(devices)
        load_virtual_gpu(devices, with_values=parse(os.environ).vgpu_values)
    except StreamguardError as error:
        raise pytest.UsageError(f"{_OPTION} {devices}: {error}") from error


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what cannot take effect: a process is watched in one mode."""
    mode = os.environ.get("STREAMGUARD", "0") or "0"
    if config.getoption(_CONFIRM) and mode not in ("0", "confirm"):
        raise pytest.UsageError(
            f"{_CONFIRM}: STREAMGUARD={mode} watches this process already, without trying races; "
            "set STREAMGUARD=confirm instead"
        )


@pytest.fixture
def assert_no_races(request: pytest.FixtureRequest) -> Iterator[Session]:
    """Watch the test; it fails if it has a race, or if nothing was seen that could have raced.

    Yields:
        The open session, for tests that look at findings themselves.
    """
    import torch  # noqa: F401  the hooks need it loaded

    from streamguard.adapters import register_adapters
    from streamguard.config import parse_patterns
    from streamguard.report_filter import Filters
    from streamguard.session import Session

    option = request.config.getoption
    filters = Filters(parse_patterns(option(_TENSORS)), parse_patterns(option(_MODULES)))
    undo = register_adapters()
    session = Session(confirming=option(_CONFIRM), filters=filters)
    session.start()
    request.node.stash[_session_key] = session
    try:
        yield session
    finally:
        session.stop()
        undo()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Judge the session right after the test's body: the test fails, not its teardown."""
    try:
        yield
    except BaseException:
        session = item.stash.get(_session_key, None)
        if session is not None:
            session.stop()
            _add_section(item, session.report())
        raise
    session = item.stash.get(_session_key, None)
    if session is not None:
        session.stop()
        _judge(session.report())


def _judge(report: Report) -> None:
    from streamguard.report.text import render

    if report.status == "races":
        pytest.fail(render(report), pytrace=False)
    if report.is_filtered_out:
        pytest.fail(
            f"assert_no_races checked nothing: {_TENSORS} or {_MODULES} fits nothing in this test"
            f"\n\n{render(report)}",
            pytrace=False,
        )
    if report.status == "checked-nothing":
        pytest.fail(
            f"assert_no_races checked nothing: the test ran no op on a CUDA device. Without a "
            f"GPU, run pytest with {_OPTION} N\n\n{render(report)}",
            pytrace=False,
        )


def _add_section(item: pytest.Item, report: Report) -> None:
    """Show the races of a test that failed by itself beside its own failure."""
    from streamguard.report.text import render

    if report.status == "races":
        item.add_report_section("call", "streamguard", render(report))
