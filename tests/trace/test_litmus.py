"""Every litmus program, recorded and replayed: the exact race set again."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamguard import _core
from streamguard.litmus.case import Variant, read_cases
from streamguard.litmus.program import Program
from streamguard.trace.replay import Replay
from tests.trace.recorded import EngineTrace

_FOLDER = Path(__file__).parents[1] / "data" / "litmus"
_VARIANTS = [
    pytest.param(variant, id=f"{path.stem}-{variant.name}")
    for path in sorted(_FOLDER.glob("*.yaml"))
    for variant in read_cases(path.read_text(), path.name)
]

# Of an access: everything but the label, whose numbers are each engine's own.
_ACCESS = ("op", "on_host", "stream", "thread", "lane", "epoch", "kind", "allocation")


def _facts(races: list[_core.Race]) -> list[tuple[object, ...]]:
    return [
        (
            *(race.kind, race.domain, race.overlap, *_access(race.first), *_access(race.second)),
            *(race.missing.needed_epoch, race.missing.known_epoch),
            race.missing.event_after_first,
        )
        for race in races
    ]


def _access(record: _core.AccessRecord) -> tuple[object, ...]:
    region = record.region
    return (
        *(getattr(record, name) for name in _ACCESS),
        *(region.begin, region.width, region.pitch, region.rows),
    )


@pytest.mark.parametrize("history", [_core.History.BOUNDED, _core.History.FULL])
@pytest.mark.parametrize("variant", _VARIANTS)
def test_a_replayed_program_has_the_same_races(
    tmp_path: Path, variant: Variant, history: _core.History
) -> None:
    """All races with both ops, regions, overlaps and epochs, in both histories."""
    engine = _core.Engine(history=history, one_host_clock=False)
    trace = EngineTrace(tmp_path / "t.arrows", [f"op {n}" for n in range(100)], engine=engine)
    Program(variant.statements, engine=engine).run()
    trace.write()
    trace.close()
    replay = Replay(trace.path, history=history, keeps_races=True)

    replay.run()

    recorded = engine.take_races()
    assert _facts(replay.replayer.take_races()) == _facts(recorded)
    assert replay.replayer.counts()["accesses"] == engine.counts()["accesses"]
