"""Tests of parts that need neither torch nor a built extension."""
