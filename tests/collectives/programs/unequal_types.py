"""Two ranks of an optimizer step; `wrong`: rank 1 broadcasts another type of the same size.

Nothing hangs and nothing fails: the bytes go through.
"""

import os
import sys

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("gloo")
is_at_fault = sys.argv[1] == "wrong" and dist.get_rank() == 1
dist.broadcast(torch.ones(8, dtype=torch.int32 if is_at_fault else torch.float32), 0)
(torch.ones(8, device="cuda") * 2).cpu()
dist.destroy_process_group()
