"""Real Flight Recorder dumps: the verdict names the ranks in which the fault was injected."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamguard.collectives import flight_recorder
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
        flight_recorder.load_plain(path)

    assert caught.value.reason == f"names {refused}, which is refused"


def test_plain_containers_are_admitted(tmp_path: Path) -> None:
    """Dicts, lists, tuples, strings, numbers and None come back as they are."""
    content = {"a": [1, 2.5, None, True, ("x", -(10**30))], "b": {}}
    path = tmp_path / "_dump_0"
    path.write_bytes(pickle.dumps(content, protocol=2))

    assert flight_recorder.load_plain(path) == content


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps({"a": 1})[:-3]])
def test_a_damaged_dump_is_an_error_with_its_path(tmp_path: Path, content: bytes) -> None:
    """A cut or foreign file is no crash."""
    path = tmp_path / "_dump_7"
    path.write_bytes(content)

    with pytest.raises(DumpError) as caught:
        flight_recorder.read_dumps([path])

    assert caught.value.path == str(path)
