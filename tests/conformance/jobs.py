"""Programs of the ground-truth tests, each run with the interposer and the virtual GPU's log."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.watched import PRELOADED
from tests.rules.programs import ROOT, Outcome, run, run_ranks

# The last call before the hooks' counts are read; what libraries do at exit comes later.
LAST = "device_sync"
MARK = """
import ctypes
_mark = ctypes.CDLL(None).streamguard_vgpu_log
_mark.argtypes = [ctypes.c_char_p]
_mark(b"end")
"""

GRAPHS = """
x = torch.zeros(64, 64, device="cuda")
side = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        y = x.relu() + 1
    main.wait_stream(side)
    z = y * 2
for _ in range(3):
    x.copy_(torch.randn(64, 64))
    graph.replay()
    z.sum().item()
"""

# Batches are pinned by a thread of the loader, and copied one step ahead on a stream of their own.
LOADER = """
import torch.utils.data as data
torch.manual_seed(0)
torch.autograd.set_multithreading_enabled(False)
model = torch.nn.Linear(32, 32).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
copy_stream = torch.cuda.Stream()
main = torch.cuda.current_stream()

def ahead(batches):
    following = None
    for (batch,) in batches:
        with torch.cuda.stream(copy_stream):
            coming = batch.cuda(non_blocking=True)
        if following is not None:
            yield following
        main.wait_stream(copy_stream)
        coming.record_stream(main)
        following = coming
    yield following

loader = data.DataLoader(
    data.TensorDataset(torch.randn(64, 32)), batch_size=8, num_workers=2, pin_memory=True
)
for batch in ahead(loader):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
"""

MODEL = """
torch.manual_seed(0)
torch.autograd.set_multithreading_enabled(False)
model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4))).cuda()
"""

TRAIN = """
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    model(torch.randn(8, 32, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""

DDP = f"""{MODEL}
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=0.005)
{TRAIN}"""

FSDP2 = f"""{MODEL}
from torch.distributed.fsdp import fully_shard
for layer in model:
    fully_shard(layer)
fully_shard(model)
{TRAIN}"""


# `{arguments}`: options of the example.
DEEPSPEED = f"""
import runpy, sys
# Fused attention asks a library for its workspace, and the stub knows none.
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_cudnn_sdp(False)
torch.autograd.set_multithreading_enabled(False)
sys.path.insert(0, {str(ROOT / "examples")!r})
sys.argv = ["train_zero2.py", *"{{arguments}}".split()]
runpy.run_path({str(ROOT / "examples/train_zero2.py")!r}, run_name="__main__")
"""

# The optimizer's state lies on the host: gradients come to pinned memory, parameters leave it.
OFFLOAD = f"""
import sys
torch.autograd.set_multithreading_enabled(False)
sys.path.insert(0, {str(ROOT)!r})
from tests.soak.trainings import TRAININGS
TRAININGS["{{training}}"](rank)
"""


def logged(
    directory: Path, program: str, *, hearing: dict[str, str] = PRELOADED, devices: int = 1
) -> tuple[Outcome, list[str]]:
    """Run a program of one process; return what the hooks said and the calls up to its end.

    `hearing`: what lets the hooks hear of calls outside of operators.
    """
    log = directory / "api.log"
    ending = MARK + "torch.cuda.synchronize()\n"
    outcome = run(
        directory, program + ending, devices=devices, STREAMGUARD_VGPU_LOG=str(log), **hearing
    )
    return outcome, _until_end(log)


def logged_ranks(
    directory: Path, program: str, *, hearing: dict[str, str] = PRELOADED
) -> list[tuple[Outcome, list[str]]]:
    """Run a program of two processes, each with a log of its own."""
    name_log = 'log_name = os.environ["STREAMGUARD_VGPU_LOG"].replace("%p", str(os.getpid()))\n'
    # `run_ranks` ends each program with the synchronization.
    rename = 'os.rename(log_name, f"{os.path.dirname(log_name)}/rank{rank}.log")\n'
    pattern = str(directory / "api%p.log")
    outcomes = run_ranks(
        directory,
        name_log + program + MARK + rename,
        STREAMGUARD_VGPU_LOG=pattern,
        **hearing,
    )
    return [
        (outcome, _until_end(directory / f"rank{rank}.log"))
        for rank, outcome in enumerate(outcomes)
    ]


def _until_end(log: Path) -> list[str]:
    lines = log.read_text().splitlines()
    last = next(i for i in range(lines.index("end"), len(lines)) if lines[i].startswith(LAST))
    return lines[: last + 1]
