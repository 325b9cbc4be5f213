"""Adds the order that DeepSpeed's ZeRO-1/2 reducer lacks, without changing what it computes."""
