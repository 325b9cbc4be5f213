"""Cost of the engine against its peers, in one interleaved run.

    make bench-engine     medians of 7 rounds with their ranges

Every round runs each detector once, each in a process of its own:

    engine      csrc/core, compiled here with -O2
    sanitizer   EventHandler of torch.cuda._sanitizer
    fibers      gcc's ThreadSanitizer with one fiber for each stream

on the same sequence of launches, each reading one region and writing one: 8 streams in turn, an
event from one stream to the next every 64 launches. Each process asserts first that the sequence is
clean and, after the clock has stopped, that a racing write is found. Peers need more memory than
there is for many large regions, so that there are fewer of those, for every detector alike.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
ROUNDS = 7
STREAMS = 8
MIB = 1 << 20
LIVE_BYTES = 256 * MIB
# Launches of one pass for each size of a region, and how often fibers and the engine run it.
SIZES = {
    4 << 10: (20000, 5, 30),
    64 << 10: (4000, 3, 100),
    MIB: (500, 2, 600),
    16 * MIB: (64, 1, 4000),
}
SANITIZER_SIZE = 4 << 10
STREAM_COUNTS = (2, 8, 32, 128, 256)
REGION_COUNTS = (100, 1000, 10_000, 100_000, 1_000_000)
MEMORY_OPS = 10_000_000
VGPU = {"STREAMGUARD_VGPU": "1", "STREAMGUARD_VGPU_VALUES": "0", "STREAMGUARD": "0"}


def compile_drivers() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CXX", "g++")
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'bench'}"]
    library = []
    for source in sorted((ROOT / "csrc" / "core").glob("*.cc")):
        library.append(str(BUILD / f"{source.stem}.o"))
        subprocess.run([compiler, *flags, "-c", str(source), "-o", library[-1]], check=True)
    for name, extra in (
        *((driver, library) for driver in ("core_sequence", "core_launch", "core_memory")),
        ("core_fibers", ["-fsanitize=thread"]),
    ):
        source = str(ROOT / "bench" / f"{name}.cc")
        subprocess.run([compiler, *flags, source, *extra, "-o", str(BUILD / name)], check=True)


def lines_of_sequence(size: int, launches: int) -> Iterator[str]:
    regions = max(STREAMS * 2, min(1000, LIVE_BYTES // size))
    per_stream = regions // STREAMS
    state = 1
    yield f"{STREAMS} {regions} {size}"
    for index in range(launches):
        # Regions in an order that caches cannot guess.
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        stream = index % STREAMS
        first = stream * per_stream
        read, written = (first + (state >> shift) % per_stream for shift in (33, 13))
        yield f"L {stream} {read} {written}"
        if index % 64 == 63:
            yield f"R {stream}"
            yield f"W {(stream + 1) % STREAMS}"
    # Stream 1 writes what the last stream has just written: nothing orders that pair.
    yield f"X 1 {written}"


def sequence_file(size: int) -> str:
    path = BUILD / f"sequence_{size}"
    path.write_text("\n".join(lines_of_sequence(size, SIZES[size][0])) + "\n")
    return str(path)


def run_driver(command: list[str], environment: dict[str, str] | None = None) -> dict[str, float]:
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def spread(values: list[float], scale: float = 1.0, digits: int = 2) -> str:
    low, middle, high = (f(values) / scale for f in (min, statistics.median, max))
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def name_of(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size >> 10} KiB"


def compare_with_peers() -> None:
    files = {size: sequence_file(size) for size in SIZES}
    sanitizer: list[float] = []
    ours: dict[int, list[float]] = {size: [] for size in SIZES}
    fibers: dict[int, list[float]] = {size: [] for size in SIZES}
    for number in range(ROUNDS):
        print(f"[bench-engine] round {number + 1} of {ROUNDS}", file=sys.stderr)
        script = str(ROOT / "bench" / "core_sanitizer.py")
        command = [sys.executable, script, files[SANITIZER_SIZE], "1"]
        sanitizer.append(run_driver(command, VGPU)["ns"])
        for size, (_, fiber_passes, passes) in SIZES.items():
            command = [str(BUILD / "core_sequence"), files[size], str(passes)]
            ours[size].append(run_driver(command)["ns"])
            command = [str(BUILD / "core_fibers"), files[size], str(fiber_passes)]
            fibers[size].append(run_driver(command)["ns"])
    peers = [("sanitizer", SANITIZER_SIZE, sanitizer)]
    peers += [("fibers", size, fibers[size]) for size in SIZES]
    print("microseconds per launch of two accesses")
    rows = []
    for peer, size, theirs in peers:
        ratios = [b / a for a, b in zip(ours[size], theirs, strict=True)]
        cells = (spread(ours[size], 1e3, 3), spread(theirs, 1e3), spread(ratios, 1, 0))
        rows.append((peer, name_of(size), *cells))
    print_table(("peer", "bytes of a region", "engine", "peer", "peer / engine"), rows)


def scale() -> None:
    cases = [(streams, 1000) for streams in STREAM_COUNTS]
    cases += [(STREAMS, regions) for regions in REGION_COUNTS if regions != 1000]
    samples: dict[tuple[int, int], list[dict[str, float]]] = {case: [] for case in cases}
    for number in range(ROUNDS):
        print(f"[bench-engine] sizes, round {number + 1} of {ROUNDS}", file=sys.stderr)
        for streams, regions in cases:
            command = [str(BUILD / "core_launch"), str(streams), str(regions)]
            samples[streams, regions].append(run_driver(command))
    base = [sample["ns"] for sample in samples[STREAMS, 1000]]
    rows = []
    for (streams, regions), measured in samples.items():
        times = [sample["ns"] for sample in measured]
        ratios = [time / other for time, other in zip(times, base, strict=True)]
        counts = f"{measured[0]['cells']:.0f} / {measured[0]['entries']:.0f}"
        rows.append((str(streams), str(regions), spread(times, 1e3, 3), spread(ratios), counts))
    print("microseconds per launch of two accesses, by streams and live regions of 1 MiB")
    against = f"against {STREAMS} streams, 1000 regions"
    print_table(("streams", "regions", "engine", against, "cells / entries"), rows)


def remember() -> None:
    runs = []
    for number in range(ROUNDS):
        print(f"[bench-engine] memory, round {number + 1} of {ROUNDS}", file=sys.stderr)
        runs.append(run_driver([str(BUILD / "core_memory"), str(MEMORY_OPS)]))
    grown = [run["late_kib"] - run["early_kib"] for run in runs]
    late = [run["late_kib"] for run in runs]
    print("resident memory over a steady training loop, KiB")
    header = ("ops", "at the end", "growth since the first tenth", "cells / entries")
    counts = f"{runs[0]['cells']:.0f} / {runs[0]['entries']:.0f}"
    print_table(header, [(str(MEMORY_OPS), spread(late, 1, 0), spread(grown, 1, 0), counts)])


def main() -> None:
    parts = {"peers": compare_with_peers, "sizes": scale, "memory": remember}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; by default all")
    wanted = parser.parse_args().parts or list(parts)
    if unknown := sorted(set(wanted) - set(parts)):
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    compile_drivers()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    for name in wanted:
        parts[name]()


if __name__ == "__main__":
    main()
