"""Hides torch from DeepSpeed's setup.py, which imports it only to pre-build CUDA operators.

The CUDA build of torch cannot be imported without CUDA libraries, and the way it fails differs
between machines. An ImportError is the one failure that setup.py expects.
"""

raise ImportError("torch is hidden while DeepSpeed's setup.py runs")
