"""Tests of the record of collectives, its audit, and the comparison of ranks."""
