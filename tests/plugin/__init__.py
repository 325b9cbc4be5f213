"""Tests of the pytest plugin, in processes of their own."""
