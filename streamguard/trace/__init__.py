"""Op traces: every call that the engine was given, as an Arrow IPC stream for each process.

docs/trace_format.md describes the files. pyarrow is imported by the modules here and nowhere else.
"""
