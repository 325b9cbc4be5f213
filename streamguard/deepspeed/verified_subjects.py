"""DeepSpeed's reducer, as it is and repaired, for `streamguard verify-reducer`."""

from __future__ import annotations

from collections.abc import Mapping

from streamguard.verify.subjects import Subject

_TRAINING = "streamguard.deepspeed.verified_training"

SUBJECTS: Mapping[str, Subject] = {
    "deepspeed": Subject(
        name="deepspeed", program=f"{_TRAINING}:train", edges=(), preload=(_TRAINING,)
    ),
    "repair": Subject(
        name="repair",
        program=f"{_TRAINING}:train_repaired",
        # Releases before 0.19.3 also need `reduction_waits_for_producers`, 0.17.2 to 0.17.4 need
        # `buffers_alternate`; tests/deepspeed/test_repair_edges.py shows those.
        edges=("refill_waits_for_reduction", "memory_outlives_reduction"),
        preload=(_TRAINING,),
    ),
}
