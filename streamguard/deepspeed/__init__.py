"""What streamguard knows about DeepSpeed: names of its buffers and streams, and its known races."""
