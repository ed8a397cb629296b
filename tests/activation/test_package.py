"""The package's names, however and in whatever order they are reached."""

from __future__ import annotations

from composites_testing.processes import run_python

ORDERS = (
    "import composites; composites.ExportError; f = composites.export",
    "import composites.exporting; import composites; f = composites.export",
    "import composites.cli, composites; f = composites.export",
    "from composites import export as f",
)


FORKS = f"""
import os
import torch

for script in {ORDERS}:
    child = os.fork()
    if not child:
        found = dict()
        exec(script, found)
        os._exit(0 if callable(found["f"]) else 2)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), script)
"""


def test_export_is_the_function() -> None:
    """In processes that have imported nothing else."""
    done = run_python(FORKS)
    assert done.stdout.splitlines() == [f"0 {script}" for script in ORDERS], done.stderr


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import composites
try:
    composites.enable
except composites.MissingPackageError as error:
    print(error)
from typer.testing import CliRunner
from composites.cli import app
for command in (["check", "registry.yaml"], ["list"], ["codegen", "registry.yaml", "-o", "x.py"]):
    result = CliRunner().invoke(app, command)
    print(result.exit_code, result.stderr.strip())
from composites import Program
"""


def test_without_torch_each_error_says_what_to_install() -> None:
    done = run_python(WITHOUT_TORCH)
    assert done.code == 0, done.stderr
    install = "pip install 'torch-xla-composites[torch]'"
    assert done.stdout.splitlines() == [
        f"composites.enable needs torch; {install}",
        *[f"1 this command needs torch; {install}"] * 3,
    ]
