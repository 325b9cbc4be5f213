"""Tests of the engine below the litmus notation."""
