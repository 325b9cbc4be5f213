"""The part of a DeepSpeed engine's configuration that decides which known races apply."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Configuration:
    """Release and ZeRO settings of one engine.

    Attributes:
        release: DeepSpeed's version, its numeric parts, such as (0, 17, 2).
        stage: ZeRO stage, 0 to 3.
        overlap_comm: Gradients are reduced on a stream of their own.
        contiguous_gradients: Gradients are copied into bucket buffers.
        reduce_scatter: The setting of that name; stage 1 and 2 all-reduce either way.
        world_size: Ranks of the job.
    """

    release: tuple[int, ...]
    stage: int
    overlap_comm: bool
    contiguous_gradients: bool
    reduce_scatter: bool
    world_size: int

    @property
    def release_text(self) -> str:
        """The release as people write it."""
        return ".".join(map(str, self.release))


def of_engine(engine: object) -> Configuration:
    """Read the configuration of a `DeepSpeedEngine` after its construction."""
    import deepspeed  # the program has imported it already

    zero = engine._config.zero_config  # type: ignore[attr-defined]  # DeepSpeedEngine's
    return Configuration(
        release=parse_release(deepspeed.__version__),
        stage=int(zero.stage),
        overlap_comm=bool(zero.overlap_comm),
        contiguous_gradients=bool(zero.contiguous_gradients),
        reduce_scatter=bool(zero.reduce_scatter),
        world_size=int(engine.world_size),  # type: ignore[attr-defined]  # DeepSpeedEngine's
    )


def parse_release(text: str) -> tuple[int, ...]:
    """Return the leading numeric parts: (0, 17, 2) of "0.17.2+unknown"."""
    parts = []
    for part in text.split("+")[0].split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)
