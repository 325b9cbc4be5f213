"""Waits that are put in where a program lacks them, and races that are provoked on purpose."""
