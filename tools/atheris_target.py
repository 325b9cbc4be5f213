"""What the fuzz targets in Python share: libFuzzer, driven by atheris, and its corpus."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HANGS_AFTER_S = 10


def fuzz(
    name: str,
    check: Callable[[bytes], None],
    mutate: Callable[[bytes, int, int], bytes],
    seeds: Iterable[bytes],
    *,
    most_bytes: int,
) -> None:
    """Run `check` on mutated seeds as the command line says; it ends the process.

    Args:
        name: Of the corpus, build/fuzz/NAME_corpus, which inputs that reach new code join.
        check: Raises what is a failure; atheris prints it and leaves the input in build/fuzz.
        mutate: (input, most bytes, seed) to the next input.
        seeds: What an empty corpus begins with.
        most_bytes: Longest input.
    """
    import atheris

    parser = argparse.ArgumentParser(description=f"libFuzzer on {name}, through atheris")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--replay", metavar="FILE", help="run one input that failed")
    options = parser.parse_args()
    folder = ROOT / "build" / "fuzz"
    corpus = folder / f"{name}_corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    arguments = [sys.argv[0], f"-artifact_prefix={folder}/"]
    if options.replay:
        arguments.append(options.replay)
    else:
        print(f"{name}: {options.inputs} inputs", flush=True)
        arguments += [
            *(f"-runs={options.inputs}", f"-max_len={most_bytes}", f"-timeout={HANGS_AFTER_S}"),
            *("-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0", str(corpus)),
        ]
    begin = time.monotonic()

    def check_and_count(data: bytes) -> None:
        check(data)
        check_and_count.done += 1  # type: ignore[attr-defined]
        if check_and_count.done == options.inputs:  # type: ignore[attr-defined]
            seconds = time.monotonic() - begin
            print(f"{name}: {options.inputs} inputs in {seconds:.0f} s, nothing found", flush=True)

    check_and_count.done = 0  # type: ignore[attr-defined]
    atheris.Setup(arguments, check_and_count, custom_mutator=mutate)
    atheris.Fuzz()
