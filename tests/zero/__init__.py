"""The reducer, in forked ranks on the virtual GPU."""
