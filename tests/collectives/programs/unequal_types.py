"""Two ranks of an optimizer step; `wrong`: rank 1 broadcasts another type of the same size.

Nothing hangs and nothing fails: the bytes go through. `abrupt`: no exit function runs, so that the
ranks cannot compare their last calls themselves.
"""

import os
import sys

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("gloo")
is_at_fault = "wrong" in sys.argv and dist.get_rank() == 1
dist.broadcast(torch.ones(8, dtype=torch.int32 if is_at_fault else torch.float32), 0)
(torch.ones(8, device="cuda") * 2).cpu()
if "abrupt" in sys.argv:
    dist.barrier()
    os._exit(0)
dist.destroy_process_group()
