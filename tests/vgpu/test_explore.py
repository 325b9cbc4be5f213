"""explore() shows a missing wait as a difference of values, and nothing where none is missing."""

from __future__ import annotations

import json

import pytest

from tests.vgpu.values_program import result_of, start

_PROGRAM = """
from streamguard.vgpu import explore, result
def program(ordered):
    side = torch.cuda.Stream()
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    x.add_(2)
    if ordered: side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 3
    torch.cuda.current_stream().wait_stream(side)
    result("first", x.new_zeros(2))
    result("y", y)
"""


@pytest.mark.parametrize("ordered", [False, True], ids=["racy", "repaired"])
def test_a_missing_wait_changes_a_named_result(ordered: bool) -> None:
    """The racy half differs under the extreme with the reader early; the repaired one never."""
    found = result_of(
        _PROGRAM
        + f"""
e = explore(lambda: program({ordered}), schedules=("extreme:0,1", "extreme:1,0"))
d = e.difference
print(json.dumps([e.schedules, e.results, e.streams, e.rescued, e.token,
                  d and [d.rank, d.place, d.expected, d.found, d.elements]]))
"""
    )

    assert found == [
        ["eager", "extreme:0,1", "extreme:1,0"],
        2,
        2,
        [],
        None if ordered else "extreme:1,0",
        None if ordered else [0, "y[0]", "6", "0", 4],
    ]


def test_default_schedules_cover_all_pairs_of_streams() -> None:
    """Eager, lazy, three seeds each of random and PCT, and n(n-1) extremes for n streams."""
    schedules = result_of(
        _PROGRAM
        + """
import torch
def three():
    program(True)
    with torch.cuda.stream(torch.cuda.Stream()): torch.ones(1, device="cuda")
print(json.dumps(explore(three).schedules))
"""
    )

    assert schedules == [
        *("eager", "lazy"),
        *("random:1", "random:2", "random:3", "pct:1", "pct:2", "pct:3"),
        *("extreme:0,1", "extreme:0,2", "extreme:1,0"),
        *("extreme:1,2", "extreme:2,0", "extreme:2,1"),
    ]


def test_results_that_vary_by_themselves_are_no_race() -> None:
    """Where the same schedule gives different bytes twice, that is said and no schedule blamed."""
    run = start(
        """
        from streamguard.vgpu import explore
        from streamguard.vgpu.exploration import UnstableResultError
        values = iter(range(100))
        try:
            explore(lambda: torch.tensor(next(values)))
        except UnstableResultError as error:
            print(json.dumps([error.token, error.difference.place]))
        """
    )

    assert json.loads(run.stdout) == ["lazy", "returned"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("explore(lambda: None)", "the function named no results"),
        ("explore(lambda: 1, schedules=['lazy', 'random'])", "'random' is no schedule"),
        ("explore(lambda: 'text')", "result 'returned' is a str"),
        ("explore(lambda: 1, schedules='')", "no schedule to compare: none is given"),
        ("explore(lambda: 1, schedules='eager')", "eager is what the others are compared with"),
        ("explore(lambda: 1, schedules='extremes')", "the program uses 0"),
    ],
)
def test_nothing_to_compare_is_an_error(call: str, told: str) -> None:
    """No named result, no or an unknown schedule, and a value without bytes are refused."""
    run = start(
        f"""
        from streamguard.vgpu import explore
        from streamguard.errors import UsageError
        try:
            {call}
        except UsageError as error:
            print(error)
        """
    )

    assert told in run.stdout


def test_any_named_part_is_compared_by_its_bytes() -> None:
    """Containers and modules give a result per tensor; names used again are numbered."""
    found = result_of(
        """
        from streamguard.vgpu import explore
        from streamguard.vgpu.comparison import first_difference
        from streamguard.vgpu.results import RankResults, collect_into, result
        def named(value):
            kept = []
            collect_into(kept.append)
            result("x", value); result("x", value)
            return RankResults(0, tuple(kept), "eager", 1, 0)
        def compared(a, b):
            d = first_difference([named(a)], [named(b)])
            return d and [d.place, d.expected, d.found, d.elements]
        bf16 = torch.tensor([[1, 2], [3, 4]], dtype=torch.bfloat16, device="cuda")
        print(json.dumps([
            [r.key for r in named({"a": [bf16, 1.5], "m": torch.nn.Linear(1, 1)}).results],
            compared(bf16, bf16 + torch.tensor([[0, 0], [1, 1]], device="cuda")),
            compared(True, False),
            compared(0.0, -0.0),
            compared(float("nan"), float("nan")),
            compared(bf16, bf16.float()),
            compared([1, 2], [1]),
        ]))
        """
    )

    keys = ["x.a[0]", "x.a[1]", "x.m.weight", "x.m.bias"]
    assert found == [
        [[key, occurrence] for occurrence in (0, 1) for key in keys],
        ["x[1, 0]", "3", "4", 2],
        ["x", "True", "False", 1],
        ["x", "0", "-0", 1],
        None,
        ["x", "bfloat16[2, 2]", "float32[2, 2]", 1],
        ["x[1]", "a value", "not named", 1],
    ]
