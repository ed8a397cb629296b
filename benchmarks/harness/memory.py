"""The memory that a program needs, from XLA's own statistics.

XLA writes a report of the buffers of each program that it compiles, if `DUMP` is among its flags
when torch_xla or jax starts: parameters, results and all that is in between, with buffers that are
used again counted once. Each program needs a process of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

DUMP = "--xla_dump_to={folder} --xla_dump_hlo_as_text"
_TOTAL = re.compile(r"Total bytes(?: used)?: (\d+)")  # torch_xla 2.9; jaxlib 0.10


def last_program_size(folder: Path) -> int | None:
    """Bytes of the buffers of the program that was compiled last, after its reports in `folder`;
    None if XLA has compiled nothing, since stock torch_xla computes some operators with PyTorch on
    the CPU."""
    reports = sorted(folder.glob("*memory-usage-report.txt"))  # module_0012.SyncTensorsGraph…
    if not reports:
        return None
    match = _TOTAL.search(reports[-1].read_text(encoding="utf-8"))
    if match is None:
        raise RuntimeError(f"{reports[-1]} does not say how many bytes are used")
    return int(match[1])
