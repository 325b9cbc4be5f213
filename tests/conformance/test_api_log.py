"""Ground truth: the virtual GPU's log of API calls against what the hooks saw of the same run."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.rules.expect import assert_clean
from tests.rules.programs import Outcome, run

# Marks in the log where an operator starts and ends, with the hooks' count of ops at that moment.
# Below autograd and autocast, so what it sees are kernels and the views between them.
MARKED = """
import ctypes
from torch.utils._python_dispatch import TorchDispatchMode
log = ctypes.CDLL(None).streamguard_vgpu_log
log.argtypes = [ctypes.c_char_p]

class MarkOps(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        log(f"op_begin {func} {hooks.coverage()['ops']}".encode())
        try:
            return func(*args, **(kwargs or {}))
        finally:
            log(f"op_end {func} {hooks.coverage()['ops']}".encode())

torch.autograd.set_multithreading_enabled(False)
"""

TRAINING = """
torch.manual_seed(0)
# Fused attention asks a library for its workspace, and the stub knows none.
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_cudnn_sdp(False)
embedding = torch.nn.Embedding(32, 16).cuda()
block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).cuda()
head = torch.nn.Linear(16, 32).cuda()
parameters = [*embedding.parameters(), *block.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
copy_stream = torch.cuda.Stream()

def step():
    batch = torch.randint(0, 32, (4, 9)).pin_memory()
    with torch.cuda.stream(copy_stream):
        tokens = batch.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(copy_stream)
    tokens.record_stream(torch.cuda.current_stream())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = head(block(embedding(tokens[:, :-1])))
    loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()

step()
torch.cuda.synchronize()
"""

# Products go to a library whose stub launches nothing; pinning is the host's own write.
WITHOUT_LAUNCH = {
    "aten.mm.default",
    "aten.addmm.default",
    "aten.bmm.default",
    "aten.baddbmm.default",
    "aten._pin_memory.default",
}


def logged_run(directory: Path, program: str) -> tuple[Outcome, list[str]]:
    """Run a program and return what the hooks said, and the virtual GPU's log."""
    log = directory / "api.log"
    outcome = run(directory, program, STREAMGUARD_VGPU_LOG=str(log))
    return outcome, log.read_text().splitlines()


@pytest.fixture(scope="module")
def marked_training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, list[str]]:
    """One training step with every operator marked in the log."""
    program = f"{MARKED}\n{TRAINING}\nlog(b'marked')\nwith MarkOps():\n    step()\n"
    return logged_run(tmp_path_factory.mktemp("marked"), program)


def test_every_launch_and_copy_lies_inside_an_observed_op(
    marked_training: tuple[Outcome, list[str]],
) -> None:
    """Work on the device outside of an access would be invisible to the race detector."""
    outcome, log = marked_training
    unobserved: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    work = 0
    depth = 0
    begin_ops = 0
    for line in log[log.index("marked") :]:
        kind, *rest = line.split()
        if kind in ("launch", "copy", "fill"):
            work += 1
            if depth == 0:
                unobserved[line] += 1
        elif kind == "op_begin":
            if depth == 0:
                work, begin_ops = 0, int(rest[1])
            depth += 1
        elif kind == "op_end":
            depth -= 1
            observed = int(rest[1]) - begin_ops
            if depth == 0 and work and not observed:
                unobserved[rest[0]] += 1
            if depth == 0 and observed and not work and rest[0] not in WITHOUT_LAUNCH:
                idle[rest[0]] += 1

    assert depth == 0
    assert sum(line.startswith("launch ") for line in log) > 50
    assert unobserved == Counter()
    assert idle == Counter()
    assert_clean(outcome, ops_at_least=200)


def test_every_record_wait_and_sync_is_seen(tmp_path: Path) -> None:
    """The counts of the coverage line equal the runtime's, allocator events aside."""
    outcome, log = logged_run(tmp_path, f"{TRAINING}\nstep()\nstep()\ntorch.cuda.synchronize()\n")
    calls = Counter(line.split()[0] for line in log)
    # record_stream on the copied batch: the allocator records an event of its own at each free, and
    # the pinned allocator one for each of its blocks, which torch does trace.
    allocator_records = 3

    assert outcome.coverage["waits"] == calls["wait"] == 3
    assert outcome.coverage["records"] == calls["record"] - allocator_records
    assert outcome.coverage["syncs"] == (
        calls["stream_sync"] + calls["event_sync"] + calls["device_sync"]
    )


def test_streams_are_the_runtime_s_streams(marked_training: tuple[Outcome, list[str]]) -> None:
    """Each stream that launched or copied is known to the hooks, with at least one op."""
    outcome, log = marked_training
    used = {
        match.group(1)
        for line in log
        if (match := re.match(r"(?:launch|copy|fill) stream=(\d+)", line))
    }

    assert len(used) == 2
    assert sum(stream["ops"] > 0 for stream in outcome.coverage["streams"]) == 2
