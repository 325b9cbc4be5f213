"""Uses torch on the CPU only, with data loading workers and a child process."""

import subprocess
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Sum numbers that two workers load."""
    data = TensorDataset(torch.arange(8.0))
    total = sum(float(batch.sum()) for (batch,) in DataLoader(data, batch_size=2, num_workers=2))
    subprocess.run([sys.executable, "-c", "import torch; torch.ones(2).sum()"], check=True)
    print(f"total {total}")


if __name__ == "__main__":
    main()
