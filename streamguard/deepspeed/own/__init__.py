"""Reduces the gradients of DeepSpeed's ZeRO-1/2 optimizer as `streamguard.zero` does."""
