"""The replacement of CUPTI tells its one subscriber of the runtime's calls."""

from __future__ import annotations

import json
from typing import Any

from conftest import RunVgpu

_PROGRAM = """
import json
from raw_cuda import *

cupti = ctypes.CDLL("libcupti.so.13")
ENTER, EXIT, RUNTIME = 0, 1, 2
COPY, COPY_PEER, FILL, RECORD, WAIT, CREATE, QUERY = 41, 161, 51, 135, 147, 202, 138

class Data(ctypes.Structure):
    _fields_ = [
        ("site", ctypes.c_int), ("function", ctypes.c_char_p), ("parameters", ctypes.c_void_p),
        ("status", ctypes.POINTER(ctypes.c_int)), ("symbol", ctypes.c_char_p),
        ("context", ctypes.c_void_p), ("context_number", ctypes.c_uint32),
        ("shared", ctypes.POINTER(ctypes.c_uint64)), ("correlation", ctypes.c_uint32),
    ]

Callback = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(Data)
)
heard, parameters = [], {}

@Callback
def callback(user, domain, number, data):
    data = data[0]
    words = ctypes.cast(data.parameters, ctypes.POINTER(ctypes.c_uint64))
    parameters[number] = [words[i] for i in range(7)] if data.parameters else []
    status = data.status[0] if data.site == EXIT else None
    if data.site == ENTER:
        data.shared[0] = 1000 + number
    shared = data.shared[0]
    heard.append([domain, number, data.site, data.function.decode(), status, data.correlation,
                  shared, user])

subscriber = Pointer()

def subscribe(into=subscriber):
    return cupti.cuptiSubscribe(ctypes.byref(into), callback, ctypes.c_void_p(77))

def enable(number, on=1, domain=RUNTIME, of=subscriber):
    return cupti.cuptiEnableCallback(ctypes.c_uint32(on), of, domain, ctypes.c_uint32(number))

def say(*values):
    print(json.dumps(values))

stream, event, memory = new_stream(), new_event(), device_memory(64)
"""


def _said(run_vgpu: RunVgpu, body: str) -> Any:
    return json.loads(run_vgpu(_PROGRAM + body)[0].lines[-1])


def test_a_call_is_told_of_when_it_starts_and_when_it_ends(run_vgpu: RunVgpu) -> None:
    """Both carry one number and the subscriber's own value; the status is there at the end."""
    answers, heard = _said(
        run_vgpu,
        """
answers = subscribe(), enable(FILL)
fill(memory, 1, 64, stream)
assert call("cudaMemsetAsync", memory, 1, ctypes.c_size_t(64), Pointer(12345)) == INVALID_HANDLE
say(answers, heard)""",
    )

    number = heard[0][5]
    assert answers == [0, 0]
    assert heard == [
        [2, 51, 0, "cudaMemsetAsync", None, number, 1051, 77],
        [2, 51, 1, "cudaMemsetAsync", 0, number, 1051, 77],
        [2, 51, 0, "cudaMemsetAsync", None, number + 1, 1051, 77],
        [2, 51, 1, "cudaMemsetAsync", 400, number + 1, 1051, 77],
    ]


def test_only_enabled_functions_are_told_of(run_vgpu: RunVgpu) -> None:
    """Each number by itself, on and off again."""
    ids = _said(
        run_vgpu,
        """
subscribe()
enable(RECORD)
record(event, stream); fill(memory, 1, 64, stream); record(event, stream)
enable(FILL); enable(RECORD, 0)
record(event, stream); fill(memory, 1, 64, stream)
say(*[number for _, number, site, *_ in heard if site == EXIT])""",
    )

    assert ids == [135, 135, 51]


def test_what_a_call_calls_itself_is_not_told_of(run_vgpu: RunVgpu) -> None:
    """With the whole domain on, a record is one call, whatever the runtime makes of it."""
    answer, names = _said(
        run_vgpu,
        """
subscribe()
answer = cupti.cuptiEnableDomain(ctypes.c_uint32(1), subscriber, RUNTIME)
record(event, stream)
device_sync()
say(answer, [told[3] for told in heard])""",
    )

    assert answer == 0
    assert names == ["cudaEventRecord"] * 2 + ["cudaDeviceSynchronize"] * 2


def test_a_second_subscriber_is_refused(run_vgpu: RunVgpu) -> None:
    """CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, until the first has left."""
    said = _said(
        run_vgpu,
        """
second = Pointer()
answers = [subscribe(), subscribe(second), second.value, enable(FILL, of=second)]
answers += [cupti.cuptiUnsubscribe(subscriber), subscribe(second), enable(FILL, of=subscriber)]
answers += [cupti.cuptiUnsubscribe(subscriber), enable(FILL, of=second)]
say(*answers)""",
    )

    assert said == [0, 39, None, 1, 0, 0, 1, 1, 0]


def test_nobody_is_told_after_leaving(run_vgpu: RunVgpu) -> None:
    """Neither by the old subscription nor, as nothing is enabled, by a new one."""
    before, after = _said(
        run_vgpu,
        """
subscribe(); enable(FILL)
fill(memory, 1, 64, stream)
before = len(heard)
cupti.cuptiUnsubscribe(subscriber)
fill(memory, 1, 64, stream)
subscribe()
fill(memory, 1, 64, stream)
say(before, len(heard))""",
    )

    assert (before, after) == (2, 2)


def test_numbers_and_domains_are_checked(run_vgpu: RunVgpu) -> None:
    """CUPTI_ERROR_INVALID_PARAMETER; other domains may be enabled and stay silent."""
    said = _said(
        run_vgpu,
        """
subscribe()
say(enable(0), enable(522), enable(523), enable(1, domain=0), enable(1, domain=7),
    enable(1, domain=3), cupti.cuptiSubscribe(None, callback, None))""",
    )

    assert said == [1, 0, 1, 1, 1, 0, 1]


def test_parameters_are_laid_out_as_the_structures_of_cupti(run_vgpu: RunVgpu) -> None:
    """Small members lie side by side; pointers at multiples of 8."""
    copies, peer, created, waited = _said(
        run_vgpu,
        """
subscribe()
for number in (COPY, COPY_PEER, CREATE, WAIT):
    enable(number)
other = device_memory(64)
ok("cudaMemcpyAsync", other, memory, ctypes.c_size_t(48), 3, stream)
ok("cudaMemcpyPeerAsync", other, 0, memory, 0, ctypes.c_size_t(40), stream)
made = Pointer()
ok("cudaStreamCreateWithPriority", ctypes.byref(made), ctypes.c_uint(1), ctypes.c_int(-1))
record(event, stream); wait(made, event)
a, b, s, e = other.value, memory.value, stream.value, event.value
copy, peer, create, waits = (parameters[n] for n in (COPY, COPY_PEER, CREATE, WAIT))
low = 0xFFFFFFFF
say([copy[:3] == [a, b, 48], copy[3] & low, copy[4] == s],
    [peer[0] == a, peer[1] & low, peer[2] == b, peer[3] & low, peer[4], peer[5] == s],
    [create[0] == ctypes.addressof(made), create[1] == (low << 32) | 1],
    [waits[:2] == [made.value, e], waits[2] & low])""",
    )

    assert copies == [True, 3, True]
    assert peer == [True, 0, True, 0, 40, True]
    assert created == [True, True]
    assert waited == [True, 0]


def test_the_context_tells_the_device(run_vgpu: RunVgpu) -> None:
    """The driver names the same one as current."""
    same, answer, device, wrong = _said(
        run_vgpu,
        """
contexts = []
@Callback
def callback(user, domain, number, data):
    contexts.append(data[0].context)
subscribe(); enable(FILL)
fill(memory, 1, 64, stream)
current, device = Pointer(), ctypes.c_uint32(9)
ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(current))
answer = cupti.cuptiGetDeviceId(Pointer(contexts[0]), ctypes.byref(device))
say(set(contexts) == {current.value}, answer, device.value,
    cupti.cuptiGetDeviceId(Pointer(5), ctypes.byref(device)))""",
    )

    assert (same, answer, device, wrong) == (True, 0, 0, 3)
