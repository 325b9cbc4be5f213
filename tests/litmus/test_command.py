"""`streamguard litmus` as a command: output and status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamguard.cli.main import main

_FOLDER = Path(__file__).parent.parent / "data" / "litmus"
_RACY = ["alloc x 8 a", "write a x 'w'", "read b x 'r'"]
_RACE = {"kind": "RAW", "domain": "device", "first": "w", "second": "r"}


def write_lines(path: Path, *records: dict[str, object]) -> str:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def test_all_case_files_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0 and a summary."""
    status = main(["litmus", *(str(path) for path in sorted(_FOLDER.glob("*.yaml")))])

    assert status == 0
    assert capsys.readouterr().out.endswith("SUMMARY: 111 programs, 0 not as expected\n")


def test_json_has_one_line_for_each_variant(capsys: pytest.CaptureFixture[str]) -> None:
    """The fields that readers rely on, and nothing else on standard output."""
    status = main(["litmus", "--json", "--explain", str(_FOLDER / "ds-5606.yaml")])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert [json.loads(line) for line in lines] == [
        {
            "id": "ds-5606",
            "variant": "buggy",
            "verdict": "race",
            "races": [
                {"kind": "WAW", "domain": "device", "first": "reduce k", "second": "fill k+2"}
            ],
            "ordered_by_nccl": [],
        },
        {
            "id": "ds-5606",
            "variant": "fixed",
            "verdict": "clean",
            "races": [],
            "ordered_by_nccl": [],
        },
    ]


def test_ordered_by_nccl_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pair that only one communicator orders is clean and listed."""
    events = ["alloc x 8 a", "collective a comm=c out=x 'w'", "collective b comm=c in=x 'r'"]
    path = write_lines(tmp_path / "case.jsonl", {"case": "nccl", "events": events})

    status = main(["litmus", "--json", path])

    record = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (record["id"], record["variant"], record["verdict"]) == ("nccl", "sequence", "clean")
    assert (record["races"], record["ordered_by_nccl"]) == ([], [_RACE])


@pytest.mark.parametrize(
    ("expectation", "status"),
    [
        ({}, 66),
        ({"verdict": "race"}, 0),
        ({"verdict": "clean"}, 66),
        ({"races": [["RAW", "device", "w", "r"]]}, 0),
        ({"verdict": "race", "races": [["RAW", "device", "w", "r"]]}, 0),
        ({"verdict": "race", "races": [["RAW", "host", "w", "r"]]}, 66),
        ({"verdict": "race", "races": []}, 66),
        ({"races": [["RAW", "device", "w", "r"], ["WAR", "device", "w", "r"]]}, 66),
    ],
)
def test_status_compares_verdict_and_exact_set(
    tmp_path: Path, expectation: dict[str, object], status: int
) -> None:
    """0 when all agree, or when nothing is expected and all is clean; else 66."""
    path = write_lines(tmp_path / "case.jsonl", {"id": "x", "events": _RACY, **expectation})

    assert main(["litmus", path]) == status


def test_a_clean_program_without_expectation_agrees(tmp_path: Path) -> None:
    """Nothing expected means clean."""
    events = ["alloc x 8 a", "write a x 'w'", "read a x 'r'"]
    path = write_lines(tmp_path / "case.jsonl", {"id": "x", "events": events})

    assert main(["litmus", path]) == 0


def test_what_differs_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found and expected races, one a line."""
    path = write_lines(
        tmp_path / "case.jsonl",
        {"id": "x", "events": _RACY, "verdict": "race", "races": [["WAW", "host", "a", "b"]]},
    )

    main(["litmus", path])

    assert capsys.readouterr().out.splitlines() == [
        "x sequence: race, NOT as expected",
        "  RAW (device): 'w' -> 'r'",
        "  expected verdict: race",
        "  expected but not found: WAW (host): 'a' -> 'b'",
        "  found but not expected: RAW (device): 'w' -> 'r'",
        "SUMMARY: 1 programs, 1 not as expected",
    ]


def test_explain_prints_the_clocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the second side knew, what it needed, and what everyone knows at the end."""
    path = write_lines(tmp_path / "case.jsonl", {"id": "x", "events": [*_RACY, "record e a"]})

    main(["litmus", "--explain", path])

    assert capsys.readouterr().out.splitlines()[2:-1] == [
        "  expected verdict: clean",
        "  found but not expected: RAW (device): 'w' -> 'r'",
        "    r: stream b knows stream a up to epoch 0, w is epoch 1",
        "    needed: stream b waits for stream a, after w, before r; orders 1 of 1",
        "    thread main knows nothing",
        "    stream a knows a:1",
        "    stream b knows b:1",
    ]


def test_a_file_that_does_not_parse_gives_status_2_and_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when another file is fine: nothing is half reported."""
    good = write_lines(tmp_path / "good.jsonl", {"id": "x", "events": []})
    bad = write_lines(
        tmp_path / "bad.jsonl", {"id": "x", "events": []}, {"id": "y", "events": ["jump"]}
    )

    status = main(["litmus", good, bad])

    output = capsys.readouterr()
    assert (status, output.out) == (2, "")
    assert output.err == f"streamguard litmus: {bad}:2: event 1: unknown event 'jump'\n"


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_cannot_be_read_gives_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    """Not UTF-8, or absent."""
    path = tmp_path / "case.yaml"
    if content is not None:
        path.write_bytes(content)

    status = main(["litmus", str(path)])

    assert status == 2
    assert f"{path}:1: " in capsys.readouterr().err


def test_no_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Doing nothing must not look clean."""
    status = main(["litmus"])

    assert status == 2
    assert "no FILE given" in capsys.readouterr().err


def test_standard_input_is_read_without_loading_torch() -> None:
    """JSON lines through a pipe; litmus needs no torch."""
    script = (
        "import sys; from streamguard.cli.main import main\n"
        "status = main(['litmus', '--stdin', '--json'])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(status)"
    )
    program = json.dumps({"id": "x", "events": _RACY})

    done = subprocess.run(
        [sys.executable, "-c", script], input=program, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (66, "")
    assert json.loads(done.stdout)["races"] == [_RACE]


def test_what_never_ends_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A device and a pipe are no files, and a file of more than 64 MiB is no case."""
    pipe, large = tmp_path / "pipe", tmp_path / "large.yaml"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate((1 << 26) + 1)

    for name, reason in (
        ("/dev/urandom", "no regular file"),
        (str(pipe), "no regular file"),
        (str(large), "more than 64 MiB"),
    ):
        assert main(["litmus", name]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"streamguard litmus: {name}:1: {reason}")


@pytest.mark.parametrize("option", ["--json", "--explain"])
def test_labels_that_the_terminal_cannot_show_are_escaped(option: str) -> None:
    """Neither half a character nor a letter outside the terminal's alphabet ends the report."""
    events = ["alloc x 8 a", "write a x '\ud800'", "read b x 'ü'"]
    # What editors on Windows put before UTF-8 is no part of the first line.
    text = b"\xef\xbb\xbf" + json.dumps({"id": "x", "events": events}).encode()

    finished = subprocess.run(
        [sys.executable, "-m", "streamguard.cli.main", "litmus", "--stdin", option],
        input=text,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )

    assert finished.returncode == 66, finished.stderr
    if option == "--json":
        race = {"kind": "RAW", "domain": "device", "first": "\ud800", "second": "ü"}
        assert json.loads(finished.stdout)["races"] == [race]
    else:
        assert b"RAW (device): '\\ud800' -> '\\xfc'" in finished.stdout
