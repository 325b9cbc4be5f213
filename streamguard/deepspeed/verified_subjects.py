"""DeepSpeed's reducer, as it is and repaired, for `streamguard verify-reducer`."""

from __future__ import annotations

from collections.abc import Mapping

from streamguard.verify.subjects import Subject

_TRAINING = "streamguard.deepspeed.verified_training"

SUBJECTS: Mapping[str, Subject] = {
    "deepspeed": Subject(
        name="deepspeed",
        program=f"{_TRAINING}:train",
        edges=(),
        claims_least_gradient_bytes=False,  # it all-reduces
        ranks=(2,),
        preload=(_TRAINING,),
    ),
    "repair": Subject(
        name="repair",
        program=f"{_TRAINING}:train_repaired",
        # What this training needs under the newest release. The other edges need other releases,
        # or a freed gradient whose memory is used again: tests/deepspeed/test_repair_edges.py.
        edges=("refill_waits_for_reduction",),
        claims_least_gradient_bytes=False,  # what is reduced stays DeepSpeed's
        ranks=(2,),
        preload=(_TRAINING,),
    ),
}
