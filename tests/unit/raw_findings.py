"""Raw dictionaries as the hooks hand them over, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]

DEFAULT_STREAM = {
    "device": 0,
    "handle": 0,
    "id": 0,
    "name": "default stream (device 0)",
}
REDUCTION_STREAM = {"device": 0, "handle": 4096, "id": 3, "name": "reduction_stream"}
POOL_STREAM = {"device": 0, "handle": 8192, "id": 5, "name": "stream 5 (device 0)"}

SITE = "/venv/lib/python3.11/site-packages"
TRAIN_FRAMES = [
    [f"{SITE}/torch/_tensor.py", 90, "copy_"],
    [f"{SITE}/deepspeed/runtime/zero/stage_1_and_2.py", 1050, "fill_bucket"],
    [f"{SITE}/torch/autograd/graph.py", 824, "_engine_run_backward"],
    ["/job/train.py", 77, "main"],
]
REDUCE_FRAMES = [
    [f"{SITE}/torch/distributed/distributed_c10d.py", 2810, "all_reduce"],
    [f"{SITE}/deepspeed/runtime/zero/stage_1_and_2.py", 1310, "average_tensor"],
    ["/job/train.py", 77, "main"],
]


def access(**changes: Any) -> Raw:
    """One access: by default a write of 4096 bytes of ipg_buffer[0] on the default stream."""
    values: Raw = {
        "op": "aten::copy_",
        "op_id": 42,
        "access": "write",
        "on_host": False,
        "stream": DEFAULT_STREAM,
        "host_thread": None,
        "epoch": 130,
        "region": {"begin": 65536, "width": 4096, "pitch": 4096, "rows": 1},
        "allocation": 7,
        "names": [{"name": "ipg_buffer[0]", "begin": 0, "end": 4096}],
        "frames": TRAIN_FRAMES,
        "forward_frames": [],
        "collective": None,
    }
    return {**values, **changes}


def reduction(**changes: Any) -> Raw:
    """The other access of the usual pair: a reduction that reads the bucket."""
    values: Raw = {
        "op": "c10d::allreduce_",
        "op_id": 40,
        "access": "read",
        "stream": REDUCTION_STREAM,
        "epoch": 121,
        "frames": REDUCE_FRAMES,
        "collective": {"async": False, "group": "0"},
    }
    return access(**{**values, **changes})


def finding(**changes: Any) -> Raw:
    """A bucket that is refilled while its reduction still reads it."""
    named = [{"name": "ipg_buffer[0]", "begin": 0, "end": 1024}]
    gradient = [{"name": "gradient of layers.3.weight", "begin": 0, "end": 1024}]
    values: Raw = {
        "id": 1,
        "code": "SG002",
        "kind": "WAR",
        "domain": "device",
        "count": 3,
        "step": 2,
        "first": reduction(),
        "second": access(),
        "overlap": {
            "begin": 65536,
            "end": 66560,
            "names_first": named,
            "names_second": gradient,
        },
        "missing": {
            "needed_epoch": 121,
            "known_epoch": 118,
            "last_wait": {
                "kind": "event_wait",
                "event": 0x5500,
                "from_stream": "reduction_stream",
                "after_op": 33,
                "before_op": 36,
            },
            "event_after_first": False,
        },
    }
    return {**values, **changes}


def coverage(**changes: Any) -> Raw:
    """What the hooks saw in a small run."""
    values: Raw = {
        "ops": 120,
        "accesses": 340,
        "collectives": 5,
        "waits": 8,
        "records": 18,
        "syncs": 6,
        "layers": ["observer", "gputrace", "allocator", "c10d"],
        "opaque": {},
        "launches_observed": False,
        "thread_handover_assumed": True,
        "regions": 40,
        "unregistered_kernels": 0,
        "streams": [{"device": 0, "handle": 0, "name": "default stream (device 0)", "ops": 100}],
        "cuda_initialised": True,
        "process_group": True,
    }
    return {**values, **changes}


def watched(**changes: Any) -> Raw:
    """A write to a listed bucket, ordered after the reduction that read it."""
    values: Raw = {
        "name": "ipg_buffer[0]",
        "op": "aten::copy_",
        "access": "write",
        "stream": "default stream (device 0)",
        "step": 0,
        "count": 2,
        "frames": TRAIN_FRAMES,
        "offset": [0, 1024],
        "ordered_after": [
            {
                "op": "c10d::allreduce_",
                "access": "read",
                "stream": "reduction_stream",
                "edge": {
                    "kind": "event_wait",
                    "event": 0x5500,
                    "from_stream": "reduction_stream",
                    "after_op": 33,
                    "before_op": 36,
                },
            }
        ],
    }
    return {**values, **changes}
