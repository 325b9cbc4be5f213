"""Tests of `streamguard.config`."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard.config import Config, parse, parse_patterns
from streamguard.errors import ConfigurationError


def test_an_empty_environment_is_inactive() -> None:
    """Without variables nothing is switched on; empty values mean the same."""
    names = ("STREAMGUARD", "STREAMGUARD_VGPU", "STREAMGUARD_RANKS", "STREAMGUARD_STACKS")

    assert parse({}) == Config()
    assert parse(dict.fromkeys(names, "")) == Config()


def test_every_variable_is_read() -> None:
    """Each variable sets its field."""
    config = parse(
        {
            "STREAMGUARD": "1",
            "STREAMGUARD_VGPU": "2",
            "STREAMGUARD_VGPU_SCHEDULE": "extreme:1,0",
            "STREAMGUARD_VGPU_VALUES": "0",
            "STREAMGUARD_VGPU_LOG": "calls-%p.log",
            "STREAMGUARD_VGPU_MEMORY_MB": "512",
            "STREAMGUARD_CUPTI": "1",
            "STREAMGUARD_OUTPUT": "results",
            "STREAMGUARD_RUN": "20300101-000000-ab12",
            "STREAMGUARD_EXIT": "1",
            "STREAMGUARD_ACCESSES": "ipg_buffer[*], grad*",
            "STREAMGUARD_RANKS": "0, 7",
            "STREAMGUARD_STACKS": "leaf",
            "STREAMGUARD_REPORTS_ELSEWHERE": "1",
            "STREAMGUARD_REDUCER": "repair",
        }
    )

    assert config == Config(
        active=True,
        vgpu_devices=2,
        vgpu_schedule="extreme:1,0",
        vgpu_values=False,
        vgpu_log="calls-%p.log",
        vgpu_memory_mb=512,
        cupti=True,
        output=Path("results"),
        run="20300101-000000-ab12",
        exit_status=True,
        accesses=("ipg_buffer[*]", "grad*"),
        ranks=frozenset({0, 7}),
        stacks="leaf",
        reports_elsewhere=True,
        reducer="repair",
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STREAMGUARD", "banana"),
        ("STREAMGUARD", "true"),
        ("STREAMGUARD_VGPU", "-1"),
        ("STREAMGUARD_VGPU", "65"),
        ("STREAMGUARD_VGPU", "two"),
        ("STREAMGUARD_VGPU", "²"),
        ("STREAMGUARD_VGPU_SCHEDULE", "fast"),
        ("STREAMGUARD_VGPU_SCHEDULE", "extreme:1"),
        ("STREAMGUARD_VGPU_SCHEDULE", "extreme:1,1"),
        ("STREAMGUARD_VGPU_SCHEDULE", "random:x"),
        ("STREAMGUARD_VGPU_SCHEDULE", "pct:1,0"),
        ("STREAMGUARD_VGPU_VALUES", "yes"),
        ("STREAMGUARD_VGPU_MEMORY_MB", "0"),
        ("STREAMGUARD_VGPU_MEMORY_MB", "17592186044416"),
        ("STREAMGUARD_CUPTI", "2"),
        ("STREAMGUARD_CUPTI", "on"),
        ("STREAMGUARD_RUN", "a/b"),
        ("STREAMGUARD_EXIT", "66"),
        ("STREAMGUARD_RANKS", "0,x"),
        ("STREAMGUARD_RANKS", "0,,1"),
        ("STREAMGUARD_STACKS", "all"),
        ("STREAMGUARD_REDUCER", "1"),
    ],
)
def test_a_wrong_value_is_refused_by_name(variable: str, value: str) -> None:
    """The error says which variable and which value."""
    with pytest.raises(ConfigurationError) as caught:
        parse({variable: value})

    assert (caught.value.variable, caught.value.value) == (variable, value)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "extreme:0,12", "random:7"])
def test_every_schedule_of_the_virtual_gpu_is_accepted(schedule: str) -> None:
    """What the virtual GPU prints as its token can be given again."""
    assert parse({"STREAMGUARD_VGPU_SCHEDULE": schedule}).vgpu_schedule == schedule


def test_a_comma_in_brackets_does_not_split_patterns() -> None:
    """Patterns are split at commas outside brackets."""
    patterns = parse_patterns("buffer[0,1], weight* ,,")

    assert patterns == ("buffer[0,1]", "weight*")


def test_modes_and_what_limits_them_are_read() -> None:
    """`enforce` watches and puts waits in; patterns and steps say for what."""
    config = parse({"STREAMGUARD": "enforce", "STREAMGUARD_ENFORCE_ONLY": "reduction_stream, copy"})
    filtered = parse({"STREAMGUARD_TENSORS": "ipg_buffer*, a.weight", "STREAMGUARD_MODULES": "a"})
    sampled = parse({"STREAMGUARD": "1", "STREAMGUARD_EVERY": "10", "STREAMGUARD_STREAMS": "copy*"})

    assert config == Config(active=True, mode="enforce", enforce_only=("reduction_stream", "copy"))
    assert sampled == Config(active=True, every=10, streams=("copy*",))
    assert filtered == Config(tensors=("ipg_buffer*", "a.weight"), modules=("a",))


def test_a_trace_is_refused_where_races_are_tried(tmp_path: Path) -> None:
    """A replay could not tell of the tries; without the mode the trace is fine."""
    with pytest.raises(ConfigurationError) as caught:
        parse({"STREAMGUARD": "confirm", "STREAMGUARD_TRACE": str(tmp_path)})

    assert (caught.value.variable, caught.value.value) == ("STREAMGUARD_TRACE", str(tmp_path))
    assert parse({"STREAMGUARD": "confirm"}) == Config(active=True, mode="confirm")


def test_waits_are_not_enforced_in_some_steps_only() -> None:
    """A step that is not looked at would get none of the waits that it lacks."""
    with pytest.raises(ConfigurationError) as caught:
        parse({"STREAMGUARD": "enforce", "STREAMGUARD_EVERY": "10"})

    assert (caught.value.variable, caught.value.value) == ("STREAMGUARD_EVERY", "10")
