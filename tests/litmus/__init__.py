"""Tests of the litmus notation and of the engine against an independent oracle."""
