"""Cost per launch of PyTorch's own sanitizer. Usage: core_sanitizer.py SEQUENCE_FILE PASSES

Its EventHandler knows data pointers and not sizes: the sequence is the same for every size.
"""

import json
import sys
import time
from pathlib import Path

from torch.cuda._sanitizer import EventHandler

_EVENT = 1


def main() -> int:
    lines = Path(sys.argv[1]).read_text().splitlines()
    streams, regions, size = map(int, lines[0].split())
    steps = [(line[0], *map(int, line[1:].split())) for line in lines[1:]]
    handler = EventHandler()
    for stream in range(streams):
        handler._handle_stream_creation(stream)
    handler._handle_event_creation(_EVENT)
    pointer = [(1 << 40) + index * size for index in range(regions)]
    for address in pointer:
        handler._handle_memory_allocation(address)
    aliases = {address: ["a"] for address in pointer}

    def run() -> int:
        errors = 0
        launch = handler._handle_kernel_launch
        for step in steps:
            match step:
                case ("X", stream, written):
                    writes = {pointer[written]}
                    errors += len(launch(stream, set(), writes, writes, "aten::add", aliases))
                case ("L", stream, read, written):
                    reads = {pointer[read]} - {pointer[written]}
                    writes = {pointer[written]}
                    errors += len(launch(stream, reads, writes, writes, "aten::add", aliases))
                case ("R", stream):
                    handler._handle_event_record(_EVENT, stream)
                case ("W", stream):
                    handler._handle_event_wait(_EVENT, stream)
        return errors

    racing = steps.pop()
    clean = run()
    begin = time.perf_counter_ns()
    for _ in range(int(sys.argv[2])):
        clean += run()
    took = time.perf_counter_ns() - begin
    launches = sum(step[0] == "L" for step in steps) * int(sys.argv[2])
    steps[:] = [racing]
    races = run()
    if clean or not races:
        print(f"wrong: {clean} races in a clean sequence, {races} with one", file=sys.stderr)
        return 1
    print(json.dumps({"ns": took / launches, "races": races}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
