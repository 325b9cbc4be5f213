"""Damaged, cut, foreign and newer files: an error that says where, and never a wrong report."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from streamguard import _core
from streamguard.errors import TraceError
from streamguard.trace.replay import Replay
from streamguard.trace.schema import FIELDS, VERSION_KEY
from tests.cli.command import streamguard
from tests.trace.recorded import BLOCK, BLOCK_END, EngineTrace, two_streams


def _replayed(path: Path) -> Replay:
    replay = Replay(path, history=_core.History.BOUNDED)
    replay.run()
    return replay


def _error(path: Path) -> TraceError:
    with pytest.raises(TraceError) as caught:
        _replayed(path)
    return caught.value


def _summary(replay: Replay) -> list[tuple[str, str, str, int, int]]:
    return [
        (found.code, found.first.op, found.second.op, found.overlap.begin, found.overlap.end)
        for found in replay.findings()
    ]


RACE = [("SG001", "writer", "reader", BLOCK, BLOCK + 100)]


def _batch_begins(path: Path) -> list[int]:
    """Where every whole batch begins, by Arrow's own reader; batches come with a checksum each."""
    source = pa.BufferReader(path.read_bytes())
    stream = pa.ipc.open_stream(source)
    begins = [0]
    for number, _ in enumerate(stream):
        if number % 2:
            begins.append(source.tell())
    return begins[:-1]


def test_a_whole_trace_has_its_race_and_its_twin_none(tmp_path: Path) -> None:
    """What the damaged ones below are compared with."""
    racy = _replayed(two_streams(tmp_path / "racy.arrows").path)
    repaired = _replayed(two_streams(tmp_path / "fine.arrows", is_repaired=True).path)

    assert (_summary(racy), racy.notes) == (RACE, [])
    assert (_summary(repaired), repaired.notes) == ([], [])


def test_every_cut_is_analysed_up_to_the_last_whole_batch(tmp_path: Path) -> None:
    """However the end is cut off: the race is there from the third batch on, and a note says so."""
    whole = two_streams(tmp_path / "whole.arrows", is_closed=False).path
    data, begins = whole.read_bytes(), _batch_begins(whole)
    assert len(begins) == 4
    cut = tmp_path / "cut.arrows"

    for length in range(begins[1] + 1, len(data), 61):
        cut.write_bytes(data[:length])
        replay = _replayed(cut)

        batches = max(number for number, begin in enumerate(begins) if begin <= length)
        is_between = length in begins
        assert _summary(replay) == (RACE if batches == 3 else []), length
        assert replay.notes == (
            []
            if is_between
            else [
                f"cut.arrows ends inside batch {batches} (byte {begins[batches]}); it was analysed "
                "up to there"
            ]
        )


def test_a_file_cut_inside_its_first_batch_is_left_out(tmp_path: Path) -> None:
    """Nobody can say which rank it is from; the report is incomplete and checked nothing."""
    path = two_streams(tmp_path / "t.arrows").path
    path.write_bytes(path.read_bytes()[: _batch_begins(path)[1] - 9])

    done = streamguard("replay", str(path), cwd=tmp_path)

    assert done.returncode == 67
    assert "t.arrows ends inside batch 0 (byte 0); it was analysed up to there" in done.stdout
    assert "t.arrows does not say which rank it is from: left out" in done.stdout


def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    """A complete file with one changed byte: refused, read as it was, or said to be cut off.

    The last only where the change lies in the mark that closes the file.
    """
    path = two_streams(tmp_path / "t.arrows").path
    data, begins = path.read_bytes(), _batch_begins(path)
    closing = len(data) - 8
    cut_off = (
        f"t.arrows ends inside batch {len(begins)} (byte {closing}); it was analysed up to there"
    )
    refused = 0

    for at in (*range(0, closing, 7), *range(closing, len(data))):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        try:
            replay = _replayed(path)
        except TraceError as error:
            refused += 1
            assert 0 <= error.byte < len(data)
            continue
        assert _summary(replay) == RACE
        assert replay.notes in ([[]] if at < closing else [[], [cut_off]])

    assert refused > len(data) / 7 * 0.8


def test_a_changed_byte_names_batch_and_byte(tmp_path: Path) -> None:
    """An address in the second batch changes: its checksum is another."""
    path = two_streams(tmp_path / "t.arrows").path
    data, begins = path.read_bytes(), _batch_begins(path)
    at = data.index(BLOCK_END.to_bytes(8, "little"), begins[1])
    path.write_bytes(data[:at] + b"\x01" + data[at + 1 :])

    error = _error(path)

    assert (error.path, error.byte, error.batch, error.row) == (str(path), begins[1], 1, None)
    assert "checksum" in error.reason


def test_bytes_behind_the_end_are_refused(tmp_path: Path) -> None:
    """Two traces in one file are no trace."""
    path = two_streams(tmp_path / "t.arrows").path
    data = path.read_bytes()
    path.write_bytes(data + data)

    assert _error(path).byte == len(data)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"hello, this is no trace at all", "this is no op trace"),
        (bytes(4096), "this is no op trace"),
        (b"\xff" * 4096, "this is no op trace"),
        (b"ARROW1\0\0" + bytes(512), "this is no op trace"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    """Status 2 and the file's name, whatever it is."""
    path = tmp_path / "foreign.arrows"
    path.write_bytes(content)

    done = streamguard("replay", str(path), cwd=tmp_path)

    assert done.returncode == 2
    assert f"{path}: byte 0: {reason}" in done.stderr


def _stream(path: Path, schema: pa.Schema) -> None:
    with pa.ipc.new_stream(str(path), schema):
        pass


def test_an_arrow_stream_of_others_is_refused(tmp_path: Path) -> None:
    """Arrow, but not ours."""
    path = tmp_path / "other.arrows"
    _stream(path, pa.schema([("x", pa.int8())]))

    assert "no op trace of streamguard" in _error(path).reason


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    """The message has both versions."""
    path = tmp_path / "newer.arrows"
    _stream(path, pa.schema(FIELDS, metadata={VERSION_KEY: b"3"}))

    assert "version '3'" in _error(path).reason
    assert "up to 2" in _error(path).reason


@pytest.mark.parametrize("missing", [field.name for field in FIELDS])
def test_a_missing_column_is_named(tmp_path: Path, missing: str) -> None:
    """Every column is needed."""
    path = tmp_path / "t.arrows"
    fields = [field for field in FIELDS if field.name != missing]
    _stream(path, pa.schema(fields, metadata={VERSION_KEY: b"1"}))

    assert f"column {missing!r} is missing" in _error(path).reason


def test_an_empty_directory_and_a_pipe_are_wrong_usage(tmp_path: Path) -> None:
    """Nothing to analyse is an error, and a pipe is not waited for."""
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe.arrows")

    for name, reason in (("empty", "no trace"), ("pipe.arrows", "no regular file"), ("no", "no")):
        done = streamguard("replay", name, cwd=tmp_path)

        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr


def _single(path: Path, **changes: bytes) -> EngineTrace:
    """Two rows, add_thread and a host access, with columns replaced."""
    trace = EngineTrace(path, ["host op"])
    thread = trace.engine.add_host_thread()
    trace.engine.host_access(thread, [(4096, 8, 8, 1, _core.AccessKind.WRITE, 0)], 0)
    trace.write_columns(**changes)
    trace.close()
    return trace


def _u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def _u64(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"thread": _u32(0, 5)}, "host_access host op: its thread does not exist"),
        ({"op": _u64(0, 9)}, "this host_access is op 1 here and was op 9 in the program"),
        ({"label": _u32(0xFFFFFFFF, 0xFFFFFFFF)}, "host_access: it has no name"),
        ({"access_begin": _u64(2**64 - 4)}, "an access ends behind the last address"),
        ({"begin": _u64(0, 9)}, "its bytes end before they begin"),
    ],
)
def test_a_row_that_no_program_makes_is_named(
    tmp_path: Path, changes: dict[str, bytes], reason: str
) -> None:
    """The checksum is right, the row is not: batch and row are in the error."""
    error = _error(_single(tmp_path / "t.arrows", **changes).path)

    assert (error.batch, error.row) == (0, 1)
    assert reason in error.reason
