"""Writes traces of engines in this process, and runs programs that write one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streamguard import _core
from streamguard.report.jsonl import to_line
from streamguard.report.model import Coverage, RankStart, RankSummary
from streamguard.trace.batches import BatchBuilder
from streamguard.trace.file_writer import TraceFile
from tests.cli.command import clean_environment, streamguard

PROGRAM = Path(__file__).parent / "programs" / "many_ops.py"
START = RankStart("run", 0, 1, 0, 1, "host", 1, (("streamguard", "0"),), None, "")
BLOCK = 0x7F12_3456_7000
BLOCK_END = BLOCK + 4096


@dataclass(frozen=True, slots=True)
class Run:
    """One program that was watched and traced."""

    status: int
    text: str
    folder: Path

    @property
    def files(self) -> list[Path]:
        return sorted((self.folder / "trace").glob("*"))

    def shown(self, *options: str) -> str:
        """What `show` prints of the run's own results."""
        return streamguard("show", *options, "out", cwd=self.folder).stdout

    def replayed(self, *options: str) -> tuple[int, str, str]:
        """Status, output and standard error of `replay`."""
        done = streamguard("replay", *options, "trace", cwd=self.folder)
        return done.returncode, done.stdout, done.stderr


def run_traced(folder: Path, *words: str, ranks: int = 0, accesses: str | None = None) -> Run:
    """Run the program on the virtual GPU; without `ranks` outside of any launcher."""
    launcher = ["python"]
    if ranks:
        launcher = ["torchrun", "--standalone", "--nproc-per-node", str(ranks)]
    options = ["--vgpu", str(max(ranks, 1)), "--output", "out", "--trace", "trace"]
    if accesses is not None:
        options += ["--accesses", accesses]
    done = streamguard(
        *("run", *options, "--", *launcher, str(PROGRAM), *words),
        cwd=folder,
        environ=clean_environment(),
    )
    return Run(done.returncode, done.stdout + done.stderr, folder)


class EngineTrace:
    """An engine whose trace is written to a file, without torch.

    Args:
        path: The file.
        labels: Names of labels 0, 1, ….
    """

    def __init__(
        self, path: Path, labels: Sequence[str], *, engine: _core.Engine | None = None
    ) -> None:
        self.path = path
        self.engine = engine or _core.Engine()
        self.engine.start_trace()
        self._builder = BatchBuilder(one_host_clock=engine is None)
        self._builder.add_labels([(label, False, False, "") for label in labels])
        self._file = TraceFile(path, self._builder)

    def write(self) -> None:
        """Write what was recorded as one batch."""
        self._file.write(self.engine.take_trace())

    def write_columns(self, **changes: object) -> None:
        """Write it with some columns replaced, as no program would."""
        self._file.write({**self.engine.take_trace(), **changes})

    def note(self, *records: RankStart | RankSummary) -> None:
        """Write a batch that says which rank it is, or what it saw."""
        columns = self.engine.take_trace()
        assert columns["rows"] == 0, "write the ops before the note"
        rows = len(records)
        narrow, wide = bytes(rows), bytes(8 * rows)
        none = b"\xff" * (4 * rows)
        texts = [to_line(record) for record in records]
        first = self._notes
        self._notes += rows
        numbers = b"".join(n.to_bytes(4, "little") for n in range(first, first + rows))
        verb = _core.TRACE_VERBS.index("note")
        self._file.write(
            {
                **columns,
                "rows": rows,
                "new_texts": texts,
                "verb": bytes([verb]) * rows,
                "kind": narrow,
                "device": narrow * 4,
                **dict.fromkeys(("thread", "stream", "label"), none),
                "text": numbers,
                **dict.fromkeys(("site", "forward_site"), narrow * 4),
                **dict.fromkeys(("op", "id", "begin", "end"), wide),
                "access_offsets": bytes(4 * (rows + 1)),
            }
        )

    _notes = 0

    def close(self) -> None:
        """Complete the file."""
        self._file.close()

    def abandon(self) -> None:
        """Leave the file as a killed process does."""
        self._file.abandon()


def two_streams(path: Path, *, is_repaired: bool = False, is_closed: bool = True) -> EngineTrace:
    """A trace of four batches: start, a write, a read on another stream, summary.

    The read races with the write of 100 bytes unless it is repaired.
    """
    trace = EngineTrace(path, ["writer", "reader"])
    trace.note(START)
    engine = trace.engine
    thread = engine.add_host_thread()
    first, second = (engine.add_stream(0, _core.StreamKind.NONBLOCKING) for _ in range(2))
    engine.allocate(thread, BLOCK, BLOCK_END, _core.MemoryKind.DEVICE, first)
    engine.launch(thread, first, [(BLOCK, 100, 100, 1, _core.AccessKind.WRITE, 0)], 0)
    trace.write()
    if is_repaired:
        engine.record_event(thread, 77, first)
        engine.wait_event(thread, second, 77)
    engine.launch(thread, second, [(BLOCK, 200, 200, 1, _core.AccessKind.READ, 0)], 1)
    trace.write()
    trace.note(RankSummary(0, 1, Coverage(ops=2, accesses=2, streams=2), ()))
    if is_closed:
        trace.close()
    else:
        trace.abandon()
    return trace


def races(lines: str) -> list[dict[str, object]]:
    """The races of a report in JSON lines."""
    records = [json.loads(line) for line in lines.splitlines()]
    return [record for record in records if record["type"] == "race"]
