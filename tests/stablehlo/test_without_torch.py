"""The package works without torch, and says what to install when jax is missing."""

import subprocess
import sys


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )


MODULE = (
    "from lowering.stablehlo import *\n"
    "module = Module.parse('func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> "
    "{ return %x : tensor<2xf32> }')\n"
)


def test_no_torch_is_imported_or_needed() -> None:
    result = python(
        "import sys\n"
        "sys.modules['torch'] = sys.modules['torch_xla'] = None\n"
        + MODULE
        + "import numpy, composites.cli.stablehlo, composites.cli.compare\n"
        "print(run(clean(module), numpy.ones(2, 'float32'))[0], html_page(module)[:15])\n"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[1. 1.] <!doctype html>\n"


def test_importing_loads_neither_jax_nor_jaxlib() -> None:
    result = python(
        "import sys, lowering.stablehlo, composites.cli.stablehlo, composites.cli.compare\n"
        "print(sorted({'jax', 'jaxlib', 'numpy', 'torch'} & sys.modules.keys()))"
    )
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_missing_jaxlib_says_what_to_install() -> None:
    result = python("import sys\nsys.modules['jaxlib'] = None\n" + MODULE)
    assert "MissingJaxError: lowering.stablehlo needs jaxlib to read StableHLO" in result.stderr
    assert result.stderr.rstrip().endswith("install it with: pip install jaxlib")


def test_missing_jax_says_what_to_install() -> None:
    result = python("import sys\nsys.modules['jax'] = None\n" + MODULE + "run(module)\n")
    assert "MissingJaxError: running or binding needs jax" in result.stderr
    assert result.stderr.rstrip().endswith("install it with: pip install jax")
