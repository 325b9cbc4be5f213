"""Native hooks (csrc/hooks). Needs torch's libraries loaded; use `streamguard.hooks` instead."""

from collections.abc import Callable

import torch

BUILT_FOR_TORCH: str
"""`torch.__version__` of the torch whose headers were used."""

def install_observers() -> int:
    """Observe every kernel registered so far; returns how many observers were added."""

def registration_count() -> int:
    """Return a number that grows with every operator registered in the process."""

def attach_allocator_trace() -> None:
    """Attach the allocator's tracker, once per process. CUDA must be initialised."""

def is_allocator_traced() -> bool: ...
def unobserved_kernels() -> list[str]:
    """Return the operators whose C++ CUDA kernel was registered after `install_observers`."""

def start(stack_depth: int, sink: Callable[[int], None]) -> None:
    """Forget what was seen before, exchange the GPUTrace sink, and watch."""

def sample(every: int, streams: list[str]) -> None:
    """Look at ops of every n-th step and of streams of these names only; none: all streams."""

def tell_places_apart(number: int) -> None:
    """Keep a finding for each place of a pair from now on, in places of this number; 0: one."""

def enter_module(number: int) -> None:
    """The next ops of this thread are in the module of this number; 0: in none."""

def finding_place(finding_id: int) -> tuple[int, bool, int, int]:
    """Return the first finding of the same pair, whether it stands for all places beyond those
    that are told apart, and the modules of both ops."""

def enforce(only: list[str], is_timed: bool) -> None:
    """From now on put missing waits in; `only`: patterns of stream names, or none for all."""

def confirm(probes: str) -> None:
    """From now on try whether races show; `probes`: library of csrc/cuda/probes.cu, or empty."""

def stop() -> None:
    """Stop watching and put the previous GPUTrace sink back."""

def hear_through_cupti(library: str) -> str:
    """Hear runtime calls through CUPTI; returns why not, or an empty text."""

def leave_cupti() -> None:
    """Let go of CUPTI."""

def begin_anew_in_child() -> None:
    """In a forked child: forget the parent's program. REQUIRES: it had not initialised CUDA."""

def activate() -> None:
    """Watch, after `begin_anew_in_child`."""

def flush() -> None: ...
def finding(finding_id: int) -> dict[str, object]: ...
def findings() -> list[dict[str, object]]: ...
def watched() -> list[dict[str, object]]: ...
def early_frees() -> list[dict[str, object]]:
    """Return op, access, stream, owner, frames, step and count of each kind of early free."""

def counters() -> dict[str, object]: ...
def name_region(begin: int, end: int, name: str, since_op: int) -> None: ...

class GradientTexts:
    """What the gradients of one optimizer are called, by the bucket they lie in.

    Where a method takes `gradient`, None stands for the parameter's own.
    """

    def set_buckets(self, buckets: list[tuple[torch.Tensor, str]]) -> None:
        """Replace the buckets; each has a name."""

    def learn(self, parameter: torch.Tensor, gradient: torch.Tensor | None, text: str) -> None:
        """From now on `name` calls the gradient so when it lies where it lies now."""

    def name(self, parameter: torch.Tensor, gradient: torch.Tensor | None, since_op: int) -> bool:
        """Name the gradient's bytes from that op on; False when it has no text where it lies."""

def name_stream(device: int, handle: int, name: str) -> None: ...
def watch(begin: int, end: int, name: str) -> None: ...
def current_op() -> int: ...
def event_completed(handle: int) -> None: ...
def stream_completed(device: int, handle: int) -> None: ...
def begin_capture() -> int: ...
def end_capture(origin: int) -> int | None: ...
def order_replay(graph: int) -> None: ...
def replay_graph(graph: int) -> None: ...
def unknown_graph_replayed() -> None: ...
def destroy_graph(graph: int) -> None: ...
def is_active() -> bool: ...
def enter_declared() -> int: ...
def leave_declared() -> int:
    """Both return how much this thread has launched and copied in such blocks, outside any op."""

def mute_launches() -> None:
    """Launches of this thread outside of ops are not opaque: something else tells of them."""

def unmute_launches() -> None: ...
def forget_last_record() -> None: ...
def set_step(step: int) -> None: ...
def start_recording() -> None:
    """Record every call to the engine from now on. REQUIRES: nothing was observed yet."""

def stop_recording() -> None: ...
def take_recorded() -> dict[str, object]:
    """Return the calls recorded since the last time, as columns; csrc/trace/columns.h has them.

    `new_texts` are numbered on from the last call, and so are `new_labels`, each of them
    (op, is collective, is asynchronous, group).
    """

def set_recorder_drain(drain: Callable[[], None] | None) -> None:
    """Set who is asked to take what was recorded, where more came than was taken."""

def stacks_after(last: int) -> list[list[tuple[str, int, str]]]:
    """Return the frames of the interned stacks `last` + 1 and on."""

def note(text: str) -> None: ...
