"""Loss scaling for float16: a scale that halves on overflow and doubles after a good while."""

from __future__ import annotations

from dataclasses import dataclass

from streamguard.errors import UsageError


@dataclass(slots=True)
class LossScale:
    """The factor on the loss; fixed if `growth_interval` is None.

    Attributes:
        scale: The factor.
        growth_interval: Steps without overflow before the scale doubles.
        minimum: The scale never falls below it.
        good_steps: Steps since the last change.

    Source:
        Mixed Precision Training, Micikevicius et al. 2018, section 3.2.
    """

    scale: float = 65536.0
    growth_interval: int | None = 2000
    minimum: float = 1.0
    good_steps: int = 0

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise UsageError(f"loss scale {self.scale}: expected a positive number")

    def update(self, *, overflowed: bool) -> None:
        """Adapt the scale to how the step went; every rank passes the same value."""
        if self.growth_interval is None:
            return
        if overflowed:
            self.scale = max(self.scale / 2, self.minimum)
            self.good_steps = 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.scale *= 2
            self.good_steps = 0
