"""Who else wants CUPTI, or keeps us from it, is said in the coverage line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.test_cupti import CUPTI, LAYERS, RAW
from tests.conformance.watched import PRELOADED
from tests.rules.programs import ROOT, Outcome, run

LAUNCH = """
import ctypes
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
one = Dim3(1, 1, 1)
cudart = ctypes.CDLL(None)
host_function = ctypes.c_void_p(0x1234)
cudart.__cudaRegisterFunction(None, host_function, None, b"_Z4mineif", -1, *[None] * 5)
def launch():
    assert cudart.cudaLaunchKernel(host_function, one, one, None, ctypes.c_size_t(0), None) == 0
"""
OP = 'x = torch.zeros(8, device="cuda")\n'


def _said(outcome: Outcome) -> tuple[object, ...]:
    """Layer, who has CUPTI, what is wrong, whether launches are observed, and those heard."""
    coverage = outcome.coverage
    return (
        "cupti" in coverage["layers"],
        coverage["gave_way"],
        coverage["silent"],
        coverage["launches_observed"],
        coverage["opaque"].get("kernel mine", 0),
    )


def test_without_the_variable_nobody_subscribes(tmp_path: Path) -> None:
    """CUPTI stays free for others, and the line says that launches are not observed."""
    subscribe = """
def nothing(*_): pass
callback = ctypes.CFUNCTYPE(None)(nothing)
subscriber = ctypes.c_void_p()
cupti = ctypes.CDLL("libcupti.so.13")
assert cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None) == 0
"""
    outcome = run(tmp_path, LAUNCH + OP + subscribe + "launch()")

    assert _said(outcome) == (False, [], [], False, 0)


def test_a_launch_is_heard(tmp_path: Path) -> None:
    """The twin of the tests below."""
    outcome = run(tmp_path, LAUNCH + OP + "launch()", **CUPTI)

    assert _said(outcome) == (True, [], [], True, 1)


def test_we_give_way_to_a_subscriber(tmp_path: Path) -> None:
    """A profiler that came first keeps CUPTI."""
    first = """
def nothing(*_): pass
callback = ctypes.CFUNCTYPE(None)(nothing)
subscriber = ctypes.c_void_p()
cupti = ctypes.CDLL("libcupti.so.13")
assert cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None) == 0
"""
    outcome = run(tmp_path, LAUNCH + first + OP + "launch()", **CUPTI)

    assert _said(outcome) == (False, ["cupti to a profiler that holds CUPTI"], [], False, 0)


def test_a_preloaded_library_makes_it_needless(tmp_path: Path) -> None:
    """Nothing is counted twice, and the line says who tells."""
    outcome = run(tmp_path, LAUNCH + OP + "launch()", **CUPTI, **PRELOADED)

    silent = ["cupti (the preloaded library hears the same calls)"]
    assert _said(outcome) == (False, [], silent, True, 1)
    assert outcome.coverage["layers"] == [*LAYERS, "runtime"]


NAMED = """
from streamguard.hooks import cupti
cupti.LIBRARY = {library!r}
"""


def test_no_library(tmp_path: Path) -> None:
    """The line names the file that was looked for."""
    program = NAMED.format(library="libcupti.so.99") + LAUNCH + OP + "launch()"
    outcome = run(tmp_path, program, **CUPTI)

    assert _said(outcome) == (False, [], ["cupti (no libcupti.so.99)"], False, 0)


BROKEN = """
#include <stddef.h>
int left = 0;
int cuptiSubscribe(void** s, void* f, void* u) { *s = &left; return SUBSCRIBE; }
int cuptiUnsubscribe(void* s) { ++left; return 0; }
int cuptiEnableCallback(unsigned on, void* s, int d, unsigned id) { return id < 100 ? 0 : ENABLE; }
#ifdef WHOLE
int cuptiGetDeviceId(void* c, unsigned* d) { *d = 0; return 0; }
#endif
"""


@pytest.mark.parametrize(
    ("subscribe", "enable", "whole", "said", "left"),
    [
        (35, 0, True, "cupti (CUPTI error 35)", 0),
        (0, 7, True, "cupti (CUPTI error 7)", 1),
        (0, 0, False, "cupti ({library} has no callbacks)", 0),
    ],
)
def test_other_errors_are_named(
    tmp_path: Path, subscribe: int, enable: int, whole: bool, said: str, left: int
) -> None:
    """Who cannot enable all calls unsubscribes again."""
    library = tmp_path / "libbroken.so"
    flags = [f"-DSUBSCRIBE={subscribe}", f"-DENABLE={enable}", *(["-DWHOLE"] if whole else [])]
    (tmp_path / "broken.c").write_text(BROKEN)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", *flags, str(tmp_path / "broken.c"), "-o", str(library)],
        check=True,
    )
    program = NAMED.format(library=str(library)) + LAUNCH + OP + "launch()\n"
    program += f'assert ctypes.c_int.in_dll(ctypes.CDLL({str(library)!r}), "left").value == {left}'

    outcome = run(tmp_path, program, **CUPTI)

    assert _said(outcome) == (False, [], [said.format(library=library)], False, 0)


PROFILED = (
    LAUNCH
    + OP
    + """
from torch.profiler import ProfilerActivity, profile
launch()
with profile(activities=[{activities}]) as profiled:
    x.add(1)
    launch()
launch()
assert "aten::add" in {{event.name for event in profiled.events()}}
answer = cudart.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), ctypes.CFUNCTYPE(None)(print), None)
"""
)


def test_we_give_way_to_the_profiler_of_torch(tmp_path: Path) -> None:
    """It gets CUPTI when it starts and keeps it; what was heard before stays counted."""
    program = PROFILED.format(activities="ProfilerActivity.CPU, ProfilerActivity.CUDA")
    # Not ours: the profiler's subscription is told of no call.
    outcome = run(tmp_path, program + "assert answer == 39", **CUPTI)

    assert _said(outcome) == (True, ["cupti to torch's profiler"], [], False, 1)


def test_a_profile_of_the_host_leaves_cupti_alone(tmp_path: Path) -> None:
    """The twin differs in one activity."""
    program = PROFILED.format(activities="ProfilerActivity.CPU")
    outcome = run(tmp_path, program, **CUPTI)

    assert _said(outcome) == (True, [], [], True, 3)


def test_we_come_back_when_the_profiler_lets_go(tmp_path: Path) -> None:
    """What passed meanwhile is missing, and the line says so."""
    program = PROFILED.format(activities="ProfilerActivity.CPU, ProfilerActivity.CUDA")
    # As with TEARDOWN_CUPTI, which works in a thread of its own: let go before the profile ends.
    program = program.replace("    launch()\nlaunch()", "    launch()\n    cupti()\nlaunch()")
    program = program.replace("with profile", "cupti = cudart.cuptiFinalize\nwith profile")
    outcome = run(tmp_path, program, **CUPTI)

    assert _said(outcome) == (True, ["cupti to torch's profiler for a time"], [], False, 2)


TRITON = """
import inspect
from triton.runtime.jit import JITFunction

class Compiled: pass

class Kernel(JITFunction):
    __name__ = "tuned"
    params, arg_names = [], []
    signature = inspect.signature(lambda: None)

JITFunction.compiled = Compiled()
JITFunction.launch = staticmethod(launch)
"""
JIT = """
class JITFunction:
    def run(self, *arguments, **options):
        self.launch()
        return self.compiled
"""


@pytest.mark.parametrize("hearing", [CUPTI, PRELOADED], ids=["cupti", "preloaded"])
def test_a_launcher_of_triton_that_uses_the_runtime_counts_once(
    tmp_path: Path, hearing: dict[str, str]
) -> None:
    """Triton's own observer tells of the launch; one beside it is heard."""
    folder = tmp_path / "triton" / "runtime"
    folder.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "jit.py").write_text(JIT)
    program = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n" + LAUNCH + OP + TRITON
    outcome = run(tmp_path, program + "Kernel().run()\nlaunch()\n", **hearing)

    opaque = {k: v for k, v in outcome.coverage["opaque"].items() if "kernel" in k}
    assert opaque == {"kernel mine": 1, "kernel tuned (Triton)": 1}


def test_a_session_that_ended_hears_nothing(tmp_path: Path) -> None:
    """Sessions with and without CUPTI follow each other in one process."""
    file = tmp_path / "sessions.py"
    file.write_text(
        "from streamguard.vgpu.load import load\nload(1)\nimport torch\n"
        "from streamguard.session import Session\n" + LAUNCH + OP + "for cupti in (1, 0, 1):\n"
        "    with Session(cupti=bool(cupti)) as session:\n"
        "        launch()\n"
        "    seen = session.coverage()\n"
        "    launch()\n"
        "    print('cupti' in seen.layers, seen.launches_observed, dict(seen.opaque))\n"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**environ, "PYTHONPATH": str(ROOT), "STREAMGUARD_VGPU_VALUES": "0"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True True {'kernel mine': 1}",
        "False False {}",
        "True True {'kernel mine': 1}",
    ]


def test_the_variable_is_enough(tmp_path: Path) -> None:
    """A program started as it is, with two variables; its line says by whom launches are heard."""
    file = tmp_path / "program.py"
    file.write_text("import torch\n" + RAW + LAUNCH + "launch()\n")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("STREAMGUARD")}
    done = subprocess.run(
        [sys.executable, str(file)],
        env={
            **environ,
            **CUPTI,
            "PYTHONPATH": str(ROOT),
            "STREAMGUARD": "1",
            "STREAMGUARD_VGPU": "1",
            "STREAMGUARD_OUTPUT": str(tmp_path / "out"),
        },
        capture_output=True,
        text=True,
    )

    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    line = next(line for line in lines if line.startswith("coverage rank 0"))
    layers = "layers observer gputrace allocator c10d cupti; opaque kernel mine 1;"
    assert done.returncode == 0
    assert layers in line
