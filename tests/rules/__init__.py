"""What the hooks report, and what they stay silent about, on the virtual GPU."""
