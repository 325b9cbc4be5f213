"""All tests; a package, so that tests/deepspeed is never taken for the library."""
