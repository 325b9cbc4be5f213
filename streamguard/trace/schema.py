"""The columns of an op trace, and its version."""

from __future__ import annotations

import pyarrow as pa

VERSION = 2
SUFFIX = ".arrows"
VERSION_KEY = b"streamguard.trace"
ONE_HOST_CLOCK_KEY = b"streamguard.one_host_clock"

_SHORT_TEXT = pa.dictionary(pa.int8(), pa.utf8())
_TEXT = pa.dictionary(pa.int32(), pa.utf8())

ACCESS = pa.struct(
    [
        pa.field("begin", pa.uint64(), nullable=False),
        pa.field("width", pa.uint64(), nullable=False),
        pa.field("pitch", pa.uint64(), nullable=False),
        pa.field("rows", pa.uint64(), nullable=False),
        pa.field("is_write", pa.bool_(), nullable=False),
        pa.field("allocation", pa.uint64(), nullable=False),
    ]
)

FIELDS = (
    pa.field("verb", _SHORT_TEXT),
    pa.field("kind", _SHORT_TEXT),
    pa.field("name", _TEXT),
    pa.field("group", _TEXT),
    pa.field("op", pa.uint64()),
    pa.field("thread", pa.uint32()),
    pa.field("stream", pa.uint32()),
    pa.field("device", pa.int32()),
    pa.field("id", pa.uint64()),
    pa.field("begin", pa.uint64()),
    pa.field("end", pa.uint64()),
    pa.field("site", _TEXT),
    pa.field("forward_site", _TEXT),
    pa.field("accesses", pa.list_(ACCESS)),
)


def schema(*, one_host_clock: bool) -> pa.Schema:
    """The schema of a new file.

    Args:
        one_host_clock: Host threads share a clock, as in watched programs.
    """
    metadata = {
        VERSION_KEY: str(VERSION).encode(),
        ONE_HOST_CLOCK_KEY: b"1" if one_host_clock else b"0",
    }
    return pa.schema(FIELDS, metadata=metadata)
