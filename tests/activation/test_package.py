"""The package's names, however and in whatever order they are reached."""

import importlib.metadata

import pytest
from composites_testing.processes import run_python

import composites

ORDERS = (
    "import composites; composites.ExportError; f = composites.export",
    "import lowering.export.api; import composites; f = composites.export",
    "import composites.cli, composites; f = composites.export",
    "from composites import export as f",
)


FORKS = f"""
import os
import torch

for script in {ORDERS}:
    child = os.fork()
    if not child:
        names = dict()
        exec(script, names)
        os._exit(0 if callable(names["f"]) else 2)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), script)
"""


@pytest.mark.process
def test_export_is_the_function() -> None:
    """`composites.export` is the function in processes that have imported nothing else."""
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
from lowering.cli.app import app
for command in (["check", "registry.yaml"], ["list"], ["codegen", "registry.yaml", "-o", "x.py"]):
    result = CliRunner().invoke(app, command)
    print(result.exit_code, result.stderr.strip())
from composites import Program
"""


def test_without_torch_each_error_says_what_to_install() -> None:
    done = run_python(WITHOUT_TORCH).succeeded()
    install = "pip install '.[torch-xla]' in a clone of torch-xla-composites"
    assert done.stdout.splitlines() == [
        f"composites.enable needs torch; {install}",
        *[f"1 error: this command needs torch; {install}"] * 3,
    ]


WITHOUT_THE_COMMAND_LINE = """
import sys
sys.modules["typer"] = sys.modules["rich"] = None
import torch, composites
with composites.enabled("gelu", "rms_norm"):
    program = composites.export(torch.nn.GELU(), (torch.ones(2),))
print(program.composites, composites.__version__)
from lowering.cli import main
main()
"""


@pytest.mark.process
def test_hooks_and_export_work_without_the_packages_of_the_command_line() -> None:
    done = run_python(WITHOUT_THE_COMMAND_LINE)
    version = importlib.metadata.version("torch-xla-composites")
    assert done.stdout == f"{{'ptxla.gelu': 1}} {version}\n", done.stderr
    install = "pip install '.[cli]' in a clone of torch-xla-composites"
    assert done.stderr.endswith(f"error: the command line needs typer; {install}\n")
    assert done.code == 1


def test_dir_is_the_api() -> None:
    assert dir(composites) == sorted(composites.__all__)
    for name in dir(composites):
        assert getattr(composites, name) is not None
