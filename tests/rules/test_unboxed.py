"""Operators of frequent C++ signatures are observed without boxing, and tell what boxing tells."""

from __future__ import annotations

from pathlib import Path

from tests.rules.programs import run

# One operator of each signature in csrc/hooks/unboxed_observers.cc, and arguments for it.
CALLS = {
    "copy_": "x, y",
    "relu": "x",
    "zero_": "x",
    "mm": "x, x.t()",
    "div_.Tensor": "x, y",
    "lt.Scalar": "x[:, 1:3], 2",
    "fill_.Scalar": "x[:, ::2], 2",
    "add.Tensor": "x, y",
    "add_.Tensor": "x, x",
    "where.self": "flags, x, y",
    "masked_fill_.Tensor": "x, flags, one",
    "addcmul": "x, y[1], y",
    "addcmul_": "x, y, y",
    "addmm": "x, x, y",
    "prod": "x",
    "sum.dim_IntList": "x, [0]",
    "linalg_vector_norm": "x, 2",
    "_log_softmax": "x, 1, False",
    "gelu": "x",
    "gelu_backward": "x, y",
    "cat": "[x, nothing, x, y]",
    "_foreach_mul_.Scalar": "[x, nothing, y], 2",
    "_foreach_mul_.ScalarList": "[x, y], [2, 3]",
    "_foreach_mul_.List": "[x, y], [y, x]",
    "_foreach_add_.List": "[x, y], [y, y]",
    "_foreach_addcmul_.Scalar": "[x], [y], [y[0]], 2",
    "_foreach_addcdiv_.ScalarList": "[x], [y], [y], [2]",
    "_foreach_sqrt": "[x, y]",
}

# A twin has the operator's schema and a kernel written in Python, which calls the operator: such a
# kernel has the boxed form only. `accesses` are bytes from the first one on, but of fresh results.
PROGRAM = """
import array
from streamguard import _hooks

_hooks.start_recording()
x, y = (torch.ones(4, 4, device="cuda") for _ in range(2))
flags = torch.ones(4, 4, dtype=torch.bool, device="cuda")
one = torch.ones((), device="cuda")
nothing = torch.empty(0, device="cuda")
known = {t.data_ptr() // 512: i for i, t in enumerate((x, y, flags, one))}

def accesses(call):
    _hooks.take_recorded()
    result = call()
    told = _hooks.take_recorded()
    column = lambda name, code: array.array(code, told["access_" + name])
    return [
        (kind, known.get(begin // 512), begin % 512, width, pitch, rows)
        for kind, begin, width, pitch, rows in zip(
            column("is_write", "B"),
            *(column(name, "Q") for name in ("begin", "width", "pitch", "rows")),
        )
    ]

def form_of_observer(name):
    dump = torch._C._dispatch_dump("aten::" + name).splitlines()
    line = next(line for line in dump if line.startswith("CUDA:"))
    return "hooks/observer.cc" in line, line[line.rindex("[") :].strip()

twins = torch.library.Library("twins", "DEF")
pairs = {}
for name, arguments in CALLS.items():
    base, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, base), overload or "default")
    twins.define(str(operator._schema).removeprefix("aten::"))
    twins.impl(name, operator, "CUDA")
    pairs[name] = operator, getattr(getattr(torch.ops.twins, base), overload or "default")
_hooks.install_observers()

for name, arguments in CALLS.items():
    operator, twin = pairs[name]
    assert form_of_observer(name) == (True, "[ boxed unboxed ]"), (name, form_of_observer(name))
    typed = accesses(lambda: operator(*eval(f"[{arguments}]")))
    boxed = accesses(lambda: twin(*eval(f"[{arguments}]")))
    assert typed, name
    assert typed == boxed, (name, typed, boxed)
"""


def test_frequent_operators_tell_the_same_without_boxing(tmp_path: Path) -> None:
    """Each takes the form without boxing, and its accesses are those of a boxed twin, in order."""
    outcome = run(tmp_path, f"CALLS = {CALLS!r}\n" + PROGRAM)

    assert outcome.findings == []
    assert outcome.coverage["ops"] >= 2 * len(CALLS)
