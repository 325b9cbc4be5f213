"""Times one DeepSpeed ZeRO-2 training step in this process; prints JSON of milliseconds per step.

One rank, so that nothing waits for another process; process time, so that nothing else counts.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path

os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import tiny_transformer
import torch
from deepspeed_compat import deepspeed

WARM_UP, STEPS, BATCHES = 5, 10, 3
LAYERS, WIDTH = 4, 32


def main() -> None:
    torch.set_num_threads(1)
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    os.environ["MASTER_PORT"] = sys.argv[1]
    torch.cuda.set_device(0)
    model = tiny_transformer.build_model(layers=LAYERS, width=WIDTH, seed=0)
    config = {
        "train_micro_batch_size_per_gpu": tiny_transformer.BATCH,
        "steps_per_print": 1_000_000,
        "gradient_clipping": 1.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        # Without values nothing can be said of a gradient, and a step that is skipped is none.
        "bf16": {"enabled": True, "check_grad_overflow": False},
        "zero_optimization": {
            "stage": 2,
            "overlap_comm": True,
            "contiguous_gradients": True,
            "reduce_bucket_size": 5 * WIDTH * WIDTH,
            "allgather_bucket_size": 5 * WIDTH * WIDTH,
        },
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    tokens = tiny_transformer.tokens_for(step=0, rank=0, seed=0).to(engine.device)

    def step() -> None:
        loss = engine(tokens)
        engine.backward(loss)
        engine.step()

    for _ in range(WARM_UP):
        step()
    best = float("inf")
    for _ in range(BATCHES):
        torch.cuda.synchronize()
        begin = time.process_time()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        best = min(best, time.process_time() - begin)
    assert engine.global_steps == WARM_UP + BATCHES * STEPS
    print(json.dumps({"ZeRO-2 step": best / STEPS * 1e3}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
