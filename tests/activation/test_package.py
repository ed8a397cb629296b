"""The package's names, however and in whatever order they are reached."""

from __future__ import annotations

import subprocess
import sys

import pytest

ORDERS = (
    "import composites; composites.ExportError; f = composites.export",
    "import lowering.export.api; import composites; f = composites.export",
    "import composites.cli, composites; f = composites.export",
    "from composites import export as f",
)


@pytest.mark.parametrize("script", ORDERS)
def test_export_is_the_function(script: str) -> None:
    subprocess.run([sys.executable, "-c", f"{script}; assert callable(f), f"], check=True)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import composites
try:
    composites.enable
except composites.MissingPackageError as error:
    print(error)
from typer.testing import CliRunner
from composites.cli.app import app
for command in (["check", "registry.yaml"], ["list"], ["codegen", "registry.yaml", "-o", "x.py"]):
    result = CliRunner().invoke(app, command)
    print(result.exit_code, result.stderr.strip())
from composites import Program
"""


def test_without_torch_each_error_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    install = "pip install 'torch-xla-composites[torch]'"
    assert done.stdout.splitlines() == [
        f"composites.enable needs torch; {install}",
        *[f"1 error: this command needs torch; {install}"] * 3,
    ]
