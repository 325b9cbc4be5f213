"""Proves a gradient reducer on the virtual GPU: many schedules, every edge deleted in turn."""
