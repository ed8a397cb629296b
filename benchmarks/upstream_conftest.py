"""A pytest plugin that writes which composites were on at the end of a process of tests.

`benchmarks.upstream` copies this file, as conftest.py, beside the tests that it runs.
"""

import os
import sys
from pathlib import Path


def pytest_sessionfinish() -> None:
    if "torch_xla" in sys.modules and "composites" in sys.modules:
        import composites

        active = " ".join(sorted(composites.active()))
        Path(os.environ["COMPOSITES_ACTIVE"]).write_text(active, encoding="utf-8")
