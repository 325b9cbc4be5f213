"""Show without any detector that a race changes the numbers: run ZeRO under many schedules.

    streamguard run --vgpu 2 --explore -- torchrun --nproc_per_node 2 examples/explore_zero2.py

Takes the options of train_zero2.py. A correct DeepSpeed trains to the same bytes under every
schedule; one that misses a wait does not.
"""

import torch
import train_zero2

from streamguard.vgpu import result


def main() -> None:
    model, losses = train_zero2.train(train_zero2.parse_arguments())
    torch.cuda.synchronize()
    result("losses", losses)
    result("model", model)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
