"""HB-05: what host waits for the legacy and for a blocking stream wait for. Prints JSON.

On a GPU `_sleep` takes a second; on the virtual GPU under the lazy schedule only a wait makes
anything run, so a query tells the same of both.
"""

from __future__ import annotations

import ctypes
import json

import torch

SLEEP_CYCLES = 2_000_000_000
BLOCKING = 0

torch.cuda.init()
torch.zeros(1, device="cuda").sum()
torch.cuda.synchronize()
runtime = ctypes.CDLL(None)  # the CUDA runtime that torch has loaded

blocking = ctypes.c_void_p()
assert runtime.cudaStreamCreateWithFlags(ctypes.byref(blocking), ctypes.c_uint(BLOCKING)) == 0
legacy = ctypes.c_void_p(0)
on_blocking = torch.cuda.ExternalStream(blocking.value)


def is_done(stream: ctypes.c_void_p) -> bool:
    return runtime.cudaStreamQuery(stream) == 0


with torch.cuda.stream(on_blocking):
    torch.cuda._sleep(SLEEP_CYCLES)
was_running = not is_done(blocking)
assert runtime.cudaStreamSynchronize(legacy) == 0
blocking_done = is_done(blocking)
torch.cuda.synchronize()

torch.cuda._sleep(SLEEP_CYCLES)
assert runtime.cudaStreamSynchronize(blocking) == 0
legacy_done = is_done(legacy)
torch.cuda.synchronize()

print(
    json.dumps(
        {
            "blocking stream runs": was_running,
            "done after a wait for the legacy stream": blocking_done,
            "legacy stream done after a wait for the blocking one": legacy_done,
        }
    )
)
