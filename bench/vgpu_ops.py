"""Times four ops on the CPU and on the virtual GPU in this process; prints JSON.

Microseconds of process time per call, issue and execution together, on one thread: both devices
alternate in batches, and each batch on the device ends with a synchronisation.
"""

import json
import statistics
import time

import torch

BATCH = 400
BATCHES = 15


def batch_us(function) -> float:
    begin = time.process_time()
    for _ in range(BATCH):
        function()
    torch.cuda.synchronize()
    return (time.process_time() - begin) / BATCH * 1e6


def cases(device: str) -> dict:
    a, b = (torch.ones(16, device=device) for _ in range(2))
    matrix = torch.eye(32, device=device)
    row, weight = torch.ones(8, 64, device=device), torch.ones(64, device=device)
    return {
        "add": lambda: a + b,
        "add_": lambda: a.add_(b),
        "mm 32x32": lambda: torch.mm(matrix, matrix),
        "layer_norm": lambda: torch.nn.functional.layer_norm(row, (64,), weight),
    }


def main() -> None:
    torch.set_num_threads(1)
    on_cpu, on_device = cases("cpu"), cases("cuda")
    result = {}
    with torch.no_grad():
        for name in on_cpu:
            batch_us(on_cpu[name]), batch_us(on_device[name])
            pairs = [(batch_us(on_cpu[name]), batch_us(on_device[name])) for _ in range(BATCHES)]
            cpu, device = (statistics.median(column) for column in zip(*pairs, strict=True))
            result[name] = {"cpu": cpu, "added": device - cpu}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
