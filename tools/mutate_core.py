"""Break each rule and each pruning condition of the engine in turn; some test must notice.

    tools/mutate_core.py                  the whole table: killed or SURVIVED, one line a mutant
    tools/mutate_core.py HB-05 "a guard"  mutants whose rule or change contains one of the texts
    tools/mutate_core.py --check          only that every anchor is found exactly once

A mutant is a textual patch of one file of csrc/core (tools/core_mutants/*.toml). It is applied to a
copy below build/, compiled, and run against tests/litmus and tests/core until the first failure.
Exits 1 when a mutant survives, 2 when the table does not fit the source or the tests fail without
any mutant.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools" / "core_mutants"
SCRATCH = ROOT / "build" / "mutate_core"
# Verdicts before counts, random programs last: most mutants die in the first second.
FIRST_TESTS = ("tests/litmus/test_rules.py", "tests/litmus/test_cases.py")
LAST_TESTS = ("tests/litmus/test_random_programs.py",)
HANGS_AFTER_S = 240
FOLDERS = ("core", "trace", "detection", "replay", "bindings")  # as in setup.py


class TableError(Exception):
    """The table does not fit the source, or the source does not pass its tests."""


@dataclass(frozen=True, slots=True)
class Mutant:
    rule: str
    change: str
    file: str
    patches: tuple[tuple[str, str], ...]  # anchor, replacement

    @property
    def title(self) -> str:
        return f"{self.rule:8} {self.change} ({self.file})"

    def apply(self, source: str) -> str:
        for anchor, replacement in self.patches:
            count = source.count(anchor)
            if count != 1:
                raise TableError(f"{self.title}: anchor found {count} times:\n{anchor}")
            source = source.replace(anchor, replacement)
        return source


def read_table() -> list[Mutant]:
    mutants = []
    for path in sorted(TABLE.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            patches = [(entry.pop("anchor"), entry.pop("replacement"))]
            if "also_anchor" in entry:
                patches.append((entry.pop("also_anchor"), entry.pop("also_replacement")))
            mutants.append(Mutant(**entry, patches=tuple(patches)))
    return mutants


def check(mutants: list[Mutant]) -> None:
    titles = {mutant.title for mutant in mutants}
    if len(titles) != len(mutants):
        raise TableError("two mutants have the same title")
    for mutant in mutants:
        mutant.apply((ROOT / "csrc" / "core" / mutant.file).read_text())


def tests() -> list[str]:
    every = [
        str(path.relative_to(ROOT))
        for folder in ("core", "litmus")
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))
    ]
    between = [name for name in every if name not in (*FIRST_TESTS, *LAST_TESTS)]
    return [*FIRST_TESTS, *between, *LAST_TESTS]


class Build:
    """A copy of the engine and its tests, with objects that are compiled again when they must be.

    Invariants:
        1. Outside of `test`, the copy is the source without a mutant and its objects fit it.
    """

    def __init__(self) -> None:
        for folder in (*(f"csrc/{name}" for name in FOLDERS), "streamguard", "tests"):
            # Times are kept, so that objects of an earlier run are used again.
            shutil.rmtree(SCRATCH / folder, ignore_errors=True)
            shutil.copytree(
                ROOT / folder,
                SCRATCH / folder,
                ignore=shutil.ignore_patterns("*.so", "__pycache__"),
            )
        shutil.copy(ROOT / "pyproject.toml", SCRATCH)
        (SCRATCH / "object").mkdir(exist_ok=True)
        self.module = SCRATCH / "streamguard" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
        includes = subprocess.check_output(
            [sys.executable, "-m", "pybind11", "--includes"], text=True
        ).split()
        self.compiler = [
            *(os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden"),
            *(f"-I{SCRATCH / 'csrc'}", *includes),
        ]
        for source in self.sources():
            if self.is_stale(source):
                self.compile(source, self.object_of(source))

    def sources(self) -> list[Path]:
        return sorted(path for name in FOLDERS for path in (SCRATCH / "csrc" / name).glob("*.cc"))

    def object_of(self, source: Path) -> Path:
        return SCRATCH / "object" / f"{source.parent.name}_{source.stem}.o"

    def inputs_of(self, source: Path) -> set[Path]:
        """The copy's files that an object was made from; some compilers list relative names."""
        listing = self.object_of(source).with_suffix(".d").read_text()
        names = listing.replace("\\\n", " ").split()[1:]
        paths = {Path(os.path.normpath(SCRATCH / name)) for name in names}
        return {path for path in paths if path.is_relative_to(SCRATCH)}

    def is_stale(self, source: Path) -> bool:
        built = self.object_of(source)
        if not built.exists() or not built.with_suffix(".d").exists():
            return True
        return any(
            not path.exists() or path.stat().st_mtime > built.stat().st_mtime
            for path in self.inputs_of(source)
        )

    def compile(self, source: Path, target: Path) -> None:
        done = subprocess.run(
            [*self.compiler, "-MMD", "-c", str(source), "-o", str(target)],
            cwd=SCRATCH, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise TableError(f"{source.name} does not compile:\n{done.stderr[:2000]}")

    def run_tests(self, replaced: dict[Path, Path]) -> subprocess.CompletedProcess[str]:
        """Link with some objects replaced and run the tests until the first failure."""
        objects = [replaced.get(source, self.object_of(source)) for source in self.sources()]
        self.module.unlink(missing_ok=True)
        subprocess.run(
            [self.compiler[0], "-shared", "-o", str(self.module), *map(str, objects)], check=True
        )
        # The copy comes before an installed streamguard; the plugin of that one stays away.
        # One seed, so that no mutant is killed by luck.
        environment = {**os.environ, "PYTHONPATH": str(SCRATCH), "RANDOM_TESTS_SEED": "1"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-x", "--tb=no"),
            *("-p", "no:cacheprovider", "-p", "no:streamguard", *tests()),
        ]
        return subprocess.run(
            command,
            cwd=SCRATCH, env=environment, capture_output=True, text=True, timeout=HANGS_AFTER_S,
        )  # fmt: skip

    def test(self, mutant: Mutant) -> str | None:
        """Name the test that noticed the mutant, or nothing when all passed."""
        path = SCRATCH / "csrc" / "core" / mutant.file
        original, stat = path.read_text(), path.stat()
        affected = [source for source in self.sources() if path in self.inputs_of(source)]
        if not affected:
            raise TableError(f"{mutant.title}: no object is made from {mutant.file}")
        replaced = {source: SCRATCH / f"mutant_{source.stem}.o" for source in affected}
        path.write_text(mutant.apply(original))
        try:
            for source, target in replaced.items():
                self.compile(source, target)
            done = self.run_tests(replaced)
        except subprocess.TimeoutExpired:
            return f"no end after {HANGS_AFTER_S} s"
        finally:
            path.write_text(original)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            for target in replaced.values():
                target.unlink(missing_ok=True)
                target.with_suffix(".d").unlink(missing_ok=True)
        if done.returncode < 0:
            return f"signal {-done.returncode}"
        if done.returncode > 1:
            raise TableError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return failed_test(done.stdout) if done.returncode else None


def failed_test(output: str) -> str:
    failed = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" - ")[0].split("/", 2)[-1] if failed else "unknown test"


def wanted(mutant: Mutant, texts: list[str]) -> bool:
    return not texts or any(text in mutant.title for text in texts)


def run(options: argparse.Namespace) -> int:
    table = read_table()
    check(table)
    mutants = [mutant for mutant in table if wanted(mutant, options.text)]
    if options.check:
        print(f"{len(table)} mutants fit csrc/core")
        return 0
    build = Build()
    without = build.run_tests({})
    if without.returncode != 0:
        raise TableError(f"tests fail without a mutant:\n{without.stdout[-3000:]}")
    survivors = 0
    for mutant in mutants:
        noticed_by = build.test(mutant)
        survivors += noticed_by is None
        verdict = "SURVIVED" if noticed_by is None else "killed  "
        print(f"{verdict} {mutant.title}" + (f" by {noticed_by}" if noticed_by else ""), flush=True)
    print(f"{len(mutants)} mutants, {survivors} survived")
    return 1 if survivors else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", nargs="*", help="part of a rule id or of a change; none: all")
    parser.add_argument(
        "--check", action="store_true", help="only compare the table and the source"
    )
    try:
        return run(parser.parse_args())
    except TableError as error:
        print(f"mutate_core: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
