"""The package's names, however and in whatever order they are reached."""

from __future__ import annotations

import subprocess
import sys

import pytest

ORDERS = (
    "import composites; composites.ExportError; f = composites.export",
    "import composites.exporting; import composites; f = composites.export",
    "import composites.cli, composites; f = composites.export",
    "from composites import export as f",
)


@pytest.mark.parametrize("script", ORDERS)
def test_export_is_the_function(script: str) -> None:
    subprocess.run([sys.executable, "-c", f"{script}; assert callable(f), f"], check=True)
