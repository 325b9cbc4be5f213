"""Forks children that run on the GPU themselves, read unordered or behind a wait (`ordered`).

Words on the command line: `group` (the parent is in a gloo group of one), `used` (the parent has
used CUDA, so the children only fork, while threads of the parent issue ops), `quit` (children end
without Python's exit functions, as those of multiprocessing do).
"""

import os
import sys
import threading

import torch
import torch.distributed

WORDS = set(sys.argv[1:])
CHILDREN = 6 if "used" in WORDS else 2


def write_and_read() -> None:
    """Read on the default stream what a side stream writes."""
    side_stream = torch.cuda.Stream()
    values = torch.zeros(16, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side_stream):
        values.add_(1)
    if "ordered" in WORDS:
        torch.cuda.current_stream().wait_stream(side_stream)
    values.mul(2)
    torch.cuda.synchronize()


def add_until(is_over: threading.Event) -> None:
    """Keep the detector's locks busy."""
    values = torch.zeros(16, device="cuda")
    while not is_over.is_set():
        values.add_(1)


def in_child() -> None:
    """What a child does: a helper asks for what was found so far, under the detector's locks."""
    if "used" not in WORDS:
        write_and_read()
        return
    from streamguard import hooks

    hooks.flush()
    print(f"child saw {hooks.coverage()['waits']} waits", flush=True)


def main() -> None:
    """Fork, and wait for each child."""
    if "group" in WORDS:
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        )
    is_over = threading.Event()
    threads = [threading.Thread(target=add_until, args=(is_over,)) for _ in range(2)]
    if "used" in WORDS:
        write_and_read()
        for thread in threads:
            thread.start()
    for _ in range(CHILDREN):
        child = os.fork()
        if child == 0:
            in_child()
            if "quit" in WORDS:
                os._exit(0)
            sys.exit(0)
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
    is_over.set()
    if "used" in WORDS:
        for thread in threads:
            thread.join()


main()
