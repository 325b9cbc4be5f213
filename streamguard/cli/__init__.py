"""The `streamguard` command."""
