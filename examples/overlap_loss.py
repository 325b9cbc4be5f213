"""The loss with and without overlap under several DeepSpeed releases, as a table and a plot.

gpt-neox issue 1004 saw that `overlap_comm` alone changed the loss. This shows it without a GPU, for
the report's release, later ones, streamguard's repair of each, and streamguard's own reducer:

    python examples/overlap_loss.py --plot overlap_loss.png

Every line of the table is one training run of `overlap_training.py` on two virtual GPUs under the
schedule that lets the default stream run ahead of all others, `extreme:0,1`. The releases are
installed by `python tools/bootstrap.py --deepspeed 0.9.5 0.14.2 0.17.2 0.19.8`; the plot needs
matplotlib: pip install "streamguard[chart]".
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
RELEASES = ("0.9.5", "0.14.2", "0.17.2", "0.19.8")
SCHEDULE = "extreme:0,1"


@dataclass(frozen=True)
class Curve:
    """Losses of rank 0 in one training run.

    Attributes:
        release: Of DeepSpeed, or "own" for `streamguard.zero.ZeroOptimizer`.
        reducer: "deepspeed", "repair" or "own".
        overlap: "off" or "on".
    """

    release: str
    reducer: str
    dtype: str
    overlap: str
    losses: list[float]

    @property
    def name(self) -> str:
        if self.reducer == "own":
            return "streamguard.zero"
        return f"DeepSpeed {self.release}" + (" repaired" if self.reducer == "repair" else "")


def train(release: str, reducer: str, overlap: list[str], options: list[str]) -> list[Curve]:
    """Run the training script once; it trains in every dtype."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "STREAMGUARD_VGPU": "2",
        "STREAMGUARD_VGPU_SCHEDULE": SCHEDULE,
    }
    for name in ("STREAMGUARD", "STREAMGUARD_REDUCER", "PYTHONPATH"):
        environment.pop(name, None)
    folder = ROOT / ".deepspeed" / release
    if folder.is_dir():  # the newest release is in .venv itself
        environment["PYTHONPATH"] = str(folder)
    elif reducer != "own" and release != RELEASES[-1]:
        raise SystemExit(
            f"DeepSpeed {release} is not in {folder.relative_to(ROOT)}; install it with: "
            f"python tools/bootstrap.py --deepspeed {release}"
        )
    if reducer == "repair":
        environment["STREAMGUARD_REDUCER"] = "repair"
    own = ["--reducer", "own"] if reducer == "own" else []
    command = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", "2"]
    script = [str(ROOT / "examples" / "overlap_training.py"), "--overlap", *overlap, *own, *options]
    done = subprocess.run(
        [*command, *script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("result: ")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(script)} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    records = [json.loads(line.removeprefix("result: ")) for line in lines]
    return [Curve(release, reducer, r["dtype"], r["overlap"], r["losses"]) for r in records]


def train_all(releases: list[str], options: list[str]) -> list[Curve]:
    runs = [(release, "deepspeed", ["off", "on"]) for release in releases]
    runs += [(release, "repair", ["on"]) for release in releases]
    runs.append((RELEASES[-1], "own", ["off", "on"]))
    curves = []
    for release, reducer, overlap in runs:
        print(f"training: {release} {reducer}, overlap {' and '.join(overlap)}", file=sys.stderr)
        curves += train(release, reducer, overlap, options)
    return curves


def reference_of(curve: Curve, curves: list[Curve]) -> Curve:
    """Return the same training without overlap; the repaired runs have their release's."""
    family = "own" if curve.reducer == "own" else "deepspeed"
    return next(
        c
        for c in curves
        if (c.release, c.dtype, c.reducer, c.overlap) == (curve.release, curve.dtype, family, "off")
    )


def table(curves: list[Curve]) -> str:
    """Return Markdown: last losses, and how far overlap moves any of them."""
    rows = [
        "| reducer | dtype | last loss, overlap off | last loss, overlap on | largest difference |",
        "|---|---|---|---|---|",
    ]
    for curve in curves:
        if curve.overlap == "off":
            continue
        serial = reference_of(curve, curves)
        steps = [abs(a - b) for a, b in zip(curve.losses, serial.losses, strict=True)]
        difference = f"{max(steps):.4f}" if any(steps) else "0, bit by bit"
        rows.append(
            f"| {curve.name} | {curve.dtype} | {serial.losses[-1]:.4f} | {curve.losses[-1]:.4f} "
            f"| {difference} |"
        )
    return "\n".join(rows)


def plot(curves: list[Curve], path: Path) -> None:
    """Draw one panel for each dtype and release: without overlap, with it, and repaired."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = [*dict.fromkeys(c.release for c in curves if c.reducer != "own"), "own"]
    dtypes = list(dict.fromkeys(c.dtype for c in curves))
    figure, panels = pyplot.subplots(
        len(dtypes),
        len(columns),
        figsize=(3.1 * len(columns), 2.9 * len(dtypes)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for row, dtype in zip(panels, dtypes, strict=True):
        for panel, column in zip(row, columns, strict=True):
            shown = [
                c
                for c in curves
                if c.dtype == dtype and column == ("own" if c.reducer == "own" else c.release)
            ]
            for curve in shown:
                steps = range(1, len(curve.losses) + 1)
                panel.plot(steps, curve.losses, **style_of(curve))
            title = "streamguard.zero" if column == "own" else f"DeepSpeed {column}"
            panel.set_title(f"{title}, {dtype}", fontsize=10)
            panel.grid(alpha=0.3)
    for panel in panels[-1]:
        panel.set_xlabel("step")
    for row in panels:
        row[0].set_ylabel("loss")
    lines = {line.get_label(): line for line in panels[0][0].get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def style_of(curve: Curve) -> dict[str, object]:
    """Without overlap a broad light line, on which an equal curve stays visible."""
    if curve.overlap == "off":
        return {"label": "overlap_comm off", "color": "#9ecae1", "linewidth": 5}
    if curve.reducer == "deepspeed":
        return {"label": "overlap_comm on", "color": "#d62728", "linewidth": 1.4}
    return {
        "label": "overlap on, repaired or own reducer",
        "color": "#000000",
        "linewidth": 1.2,
        "linestyle": (0, (3, 2)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", nargs="+", default=list(RELEASES), metavar="VERSION")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--dtypes", nargs="+", choices=("bf16", "fp16"), default=["bf16", "fp16"])
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="also draw the losses")
    parser.add_argument("--results", type=Path, metavar="FILE.json", help="keep all losses")
    arguments = parser.parse_args()
    if arguments.plot and importlib.util.find_spec("matplotlib") is None:
        print('--plot needs matplotlib: pip install "streamguard[chart]"', file=sys.stderr)
        return 2
    options = ["--steps", str(arguments.steps), "--dtypes", *arguments.dtypes]
    curves = train_all(arguments.releases, options)
    print(table(curves))
    if arguments.results:
        arguments.results.write_text(json.dumps([vars(curve) for curve in curves]))
    if arguments.plot:
        plot(curves, arguments.plot)
        print(f"\nplot: {arguments.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
