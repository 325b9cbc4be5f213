"""Real Flight Recorder dumps: the verdict names the ranks in which the fault was injected."""

from __future__ import annotations

import pickle
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from streamguard.collectives import flight_recorder
from streamguard.collectives.plain_pickle import load_plain
from streamguard.errors import DumpError
from tests.cli.command import clean_environment, streamguard

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"

# From each folder's fault_injection.log.
INJECTED = {
    "gpu_error_1st": (12, 14),
    "gpu_error_2nd": (9, 14),
    "lock_gil_1st": (9, 14),
    "lock_gil_2nd": (10, 15),
}
KIND = {"gpu_error": "stuck", "lock_gil": "dead"}


def _dumps(name: str) -> list[flight_recorder.Dump]:
    return flight_recorder.read_dumps(flight_recorder.dumps_of([DATA / name]))


@pytest.mark.parametrize("name", INJECTED)
def test_the_verdict_names_exactly_the_faulty_ranks(name: str) -> None:
    """Both ranks of each injection, and no other."""
    dumps = _dumps(name)

    verdict = flight_recorder.judge_dumps(dumps, flight_recorder.views_of(dumps))

    assert len(dumps) == 16
    assert verdict.culprits == INJECTED[name]
    assert verdict.kind == KIND[name.rsplit("_", 1)[0]]


def test_all_entries_are_imported() -> None:
    """The four jobs hold 925 entries."""
    assert sum(len(dump.entries) for name in INJECTED for dump in _dumps(name)) == 925


@pytest.mark.parametrize("name", INJECTED)
def test_pytorchs_own_analyser_does_no_better(name: str) -> None:
    """On the same files torch.distributed.flight_recorder never names the two ranks more exactly.

    It lists missing ranks for each collective; all of them together are its answer.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"),
            *("-p", "_dump_", str(DATA / name)),
        ],
        capture_output=True,
        text=True,
        env={**clean_environment(), "STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_VALUES": "0"},
    )
    listed = re.findall(r"missing ranks: \{([\d, ]+)\}", done.stdout + done.stderr)
    theirs = {int(rank) for ranks in listed for rank in ranks.split(",")}
    dumps = _dumps(name)
    ours = set(flight_recorder.judge_dumps(dumps, flight_recorder.views_of(dumps)).culprits)

    assert theirs, done.stderr
    assert len(ours ^ set(INJECTED[name])) <= len(theirs ^ set(INJECTED[name]))


def test_the_command_prints_the_verdict_and_what_is_missing(tmp_path: Path) -> None:
    """Status 66, the ranks, and a note that the dumps hold no stacks."""
    done = streamguard("desync", str(DATA / "lock_gil_2nd"), cwd=tmp_path)

    assert done.returncode == 66, done.stderr
    assert done.stdout.startswith("SG314 ranks 10, 15 are dead or stopped; others wait\n")
    assert "note: the dumps hold no Python stacks" in done.stdout
    assert done.stdout.endswith("SUMMARY desync: 16 ranks, verdict dead, 2 ranks named\n")


class _Call:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('executed')",))


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (pickle.dumps(_Call()), "builtins.exec"),
        (pickle.dumps(_Call(), protocol=0), "__builtin__.exec"),
        (pickle.dumps({"entries": [Path("x")]}), "pathlib.PosixPath"),
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"(S'true'\nios\nsystem\n.", "os.system"),
    ],
)
def test_a_pickle_that_names_a_global_is_refused_by_name(
    tmp_path: Path, content: bytes, refused: str
) -> None:
    """Nothing is looked up, so nothing can run."""
    path = tmp_path / "_dump_0"
    path.write_bytes(content)

    with pytest.raises(DumpError) as caught:
        load_plain(path)

    assert caught.value.reason == f"names {refused}, which is refused"


def test_plain_containers_are_admitted(tmp_path: Path) -> None:
    """Dicts, lists, tuples, strings, numbers and None come back as they are."""
    content = {"a": [1, 2.5, None, True, ("x", -(10**30))], "b": {}}
    path = tmp_path / "_dump_0"
    path.write_bytes(pickle.dumps(content, protocol=2))

    assert load_plain(path) == content


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps({"a": 1})[:-3]])
def test_a_damaged_dump_is_an_error_with_its_path(tmp_path: Path, content: bytes) -> None:
    """A cut or foreign file is no crash."""
    path = tmp_path / "_dump_7"
    path.write_bytes(content)

    with pytest.raises(DumpError) as caught:
        flight_recorder.read_dumps([path])

    assert caught.value.path == str(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x02Nr\xff\xff\xff\x0f.", "claims memo entry 268435455 in 9 bytes"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 10 << 30) + b"x.", "expected 10737418240 bytes in a"),
        (b"\x80\x05\x96" + struct.pack("<Q", 10 << 30) + b"x.", "expected 10737418240 bytes in a"),
    ],
)
def test_claimed_lengths_are_refused_before_memory_is_taken(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    """pickle takes the memory for a length, and for numbers of its memo, before it reads on."""
    path = tmp_path / "_dump_0"
    path.write_bytes(content)

    with pytest.raises(DumpError) as caught:
        load_plain(path)

    assert reason in caught.value.reason


def _nested(depth: int) -> list[object]:
    content: list[object] = ["x"]
    for _ in range(depth):
        content = [content, content]
    return content


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("process_group", ()),
        ("process_group", 3),
        ("process_group", ("0", _nested(40))),
        ("profiling_name", _nested(40)),
        ("state", _nested(40)),
        ("input_dtypes", [_nested(40)]),
        ("input_sizes", "abc"),
        ("frames", [{"filename": _nested(40), "line": 1, "name": "f"}]),
        ("collective_seq_id", float("inf")),
        ("collective_seq_id", 10**12),
        ("pg_config", [1]),
        ("pg_config", {"0": {"name": "0", "desc": "", "ranks": "-" * 100_000 + "1"}}),
        ("pg_config", {"0": {"name": "0", "desc": "", "ranks": "'ab'"}}),
        ("pg_status", {"0": {"last_enqueued_collective": _nested(40)}}),
    ],
)
def test_values_of_another_kind_are_refused(tmp_path: Path, key: str, value: object) -> None:
    """A list that holds itself 2**40 times would fill the memory as text; so would a range."""
    call = {
        "process_group": ("0", "default_pg"), "profiling_name": "nccl:all_reduce", "is_p2p": False,
        "collective_seq_id": 1, "p2p_seq_id": 0, "state": "completed", "input_sizes": [[4]],
        "output_sizes": [[4]], "input_dtypes": ["Float"], "pg_id": 0, "frames": [],
    }  # fmt: skip
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    content: dict[str, object] = {"entries": [call, dict(call)], "pg_config": groups}
    path = tmp_path / "_dump_0"
    path.write_bytes(pickle.dumps(content))
    assert len(flight_recorder.read_dumps([path])[0].entries) == 2
    if key in call:
        call[key] = value
    else:
        content[key] = value
    path.write_bytes(pickle.dumps(content))

    with pytest.raises(DumpError):
        flight_recorder.read_dumps([path])
