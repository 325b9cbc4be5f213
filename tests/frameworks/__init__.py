"""200 steps under common trainers; run by `make test-frameworks`."""
