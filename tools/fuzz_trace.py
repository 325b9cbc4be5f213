"""Feed damaged op traces to `replay`: an error with its position, never another exception.

    tools/fuzz_trace.py [--inputs 1000000]

Half of the inputs are whole traces with changed bytes whose checksums are made right again, so that
the rows behind them are read.
"""

import random
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import atheris  # noqa: E402
from atheris_target import fuzz  # noqa: E402

with atheris.instrument_imports(include=["streamguard.trace"], enable_loader_override=False):
    from streamguard.errors import TraceError
    from streamguard.trace.replay import Replay

import pyarrow as pa  # noqa: E402

from streamguard import _core  # noqa: E402
from tests.trace.recorded import two_streams  # noqa: E402

MOST_BYTES = 1 << 14
NUMBERS = (0, 1, 2, 7, 255, 256, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True)
class Part:
    """The bytes [begin, middle) of one batch, and where their checksum stands."""

    begin: int
    middle: int
    checksum_at: int


def parts_of(data: bytes) -> list[Part]:
    source = pa.BufferReader(data)
    stream = pa.ipc.open_stream(source)
    parts, begin = [], 0
    while True:
        try:
            stream.read_next_batch()
            middle = source.tell()
            stream.read_next_batch()
        except StopIteration:
            return parts
        crc32 = zlib.crc32(data[begin:middle])
        parts.append(Part(begin, middle, data.index(crc32.to_bytes(8, "little"), middle)))
        begin = source.tell()


def seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        return [
            two_streams(path / "racy").path.read_bytes(),
            two_streams(path / "repaired", is_repaired=True).path.read_bytes(),
            two_streams(path / "killed", is_closed=False).path.read_bytes(),
        ]


WHOLE = [(seed, parts_of(seed)) for seed in seeds()]


def change(data: bytearray, begin: int, end: int, chance: random.Random) -> None:
    at = chance.randrange(begin, end)
    kind = chance.randrange(4)
    if kind == 0:
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[at] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
    else:
        width = chance.choice((4, 8))
        at = begin + (at - begin) // width * width
        number = chance.choice(NUMBERS) % (1 << 8 * width)
        data[at : at + width] = number.to_bytes(width, "little")[: len(data) - at]


def mutate(data: bytes, most_bytes: int, seed: int) -> bytes:
    chance = random.Random(seed)
    if chance.random() < 0.5:
        return atheris.Mutate(data, most_bytes)
    whole, parts = chance.choice(WHOLE)
    changed = bytearray(whole)
    for _ in range(chance.randrange(1, 4)):
        part = chance.choice(parts)
        change(changed, part.begin, part.middle, chance)
        crc32 = zlib.crc32(changed[part.begin : part.middle])
        changed[part.checksum_at : part.checksum_at + 8] = crc32.to_bytes(8, "little")
    return bytes(changed)


def check(data: bytes) -> None:
    if not data:
        return
    try:
        replay = Replay(Path("input"), history=_core.History.BOUNDED, data=data)
        replay.run()
        replay.findings()
    except TraceError as error:
        if not 0 <= error.byte <= len(data) or not error.reason:
            raise AssertionError(f"no position: {error}") from error


if __name__ == "__main__":
    fuzz("trace_file", check, mutate, seeds(), most_bytes=MOST_BYTES)
