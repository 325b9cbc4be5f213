"""Real DeepSpeed releases, real ProcessGroupNCCL, two or three virtual GPUs."""
