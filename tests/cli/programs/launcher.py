"""A launcher that initialises CUDA, as DeepSpeed's do, and starts the rest of its command line."""

import subprocess
import sys

import torch

torch.cuda.init()
sys.exit(subprocess.run([sys.executable, *sys.argv[1:]]).returncode)
