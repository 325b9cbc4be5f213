"""Where random tests begin."""

from __future__ import annotations

import os
import random


def first_seed() -> int:
    """A new starting point for each run, printed; RANDOM_TESTS_SEED repeats an earlier one."""
    chosen = os.environ.get("RANDOM_TESTS_SEED")
    seed = random.SystemRandom().randrange(1 << 40) if chosen is None else int(chosen)
    print(f"first seed: {seed} (RANDOM_TESTS_SEED={seed} repeats it)")
    return seed
