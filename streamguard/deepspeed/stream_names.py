"""Names of the streams that DeepSpeed's objects hold, after the attributes that hold them."""

from __future__ import annotations

import re

from streamguard import session


def name_streams_of(owner: object) -> None:
    """Name every CUDA stream among `owner`'s attributes, such as `reduction_stream`.

    The default stream keeps its own name: stage 3 without overlap stores it under another one.
    """
    for attribute, value in list(vars(owner).items()):
        handle = getattr(value, "cuda_stream", None)
        if handle:
            session.name_stream(value.device_index, handle, _unmangled(attribute))


def _unmangled(attribute: str) -> str:
    """Return `allgather_stream` of `_DeepSpeedZeRoOffload__allgather_stream`."""
    return re.sub(r"^_[A-Za-z]\w*?__(?=\w)", "", attribute)
