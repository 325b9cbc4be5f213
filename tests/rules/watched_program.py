"""Run one program on the virtual GPU under the hooks and write down what they found.

Started by `programs.py`: watched_program.py PROGRAM RESULT DEVICES. The program finds torch,
`hooks` and `announced` (ids the sink received) among its globals.
"""

import json
import os
import runpy
import sys
from pathlib import Path

from streamguard.vgpu.load import load


def main() -> None:
    """Run the program and store findings, announcements, watched accesses and coverage."""
    program, result, devices = sys.argv[1:]
    if "RULES_GPUS" not in os.environ:
        load(int(devices))
    import torch

    from streamguard import hooks

    announced: list[int] = []
    cupti = os.environ.get("STREAMGUARD_CUPTI") == "1"
    undo = hooks.install(stacks="full", sink=announced.append, cupti=cupti)
    context = {"torch": torch, "hooks": hooks, "announced": announced}
    runpy.run_path(program, init_globals=context, run_name="__main__")
    hooks.flush()
    found = {
        "findings": hooks.findings(),
        "announced": announced,
        "watched": hooks.watched(),
        "coverage": hooks.coverage(),
    }
    Path(result).write_text(json.dumps(found))
    undo()


main()
