"""The package works without torch, and says what to install when jax is missing."""

import pytest
from composites_testing.processes import run_python

MODULE = (
    "from lowering.stablehlo import *\n"
    "module = Module.parse('func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> "
    "{ return %x : tensor<2xf32> }')\n"
)


def test_no_torch_is_imported_or_needed() -> None:
    result = run_python(
        "import sys\n"
        "sys.modules['torch'] = sys.modules['torch_xla'] = None\n"
        + MODULE
        + "import numpy, lowering.cli.stablehlo, lowering.cli.compare\n"
        "print(run(clean(module), numpy.ones(2, 'float32'))[0], inspect(module).operations)\n"
    )
    assert result.succeeded().stdout == "[1. 1.] 0\n"


@pytest.mark.process
def test_importing_loads_neither_jax_nor_jaxlib() -> None:
    result = run_python(
        "import sys, lowering.stablehlo, lowering.cli.stablehlo, lowering.cli.compare\n"
        "print(sorted({'jax', 'jaxlib', 'numpy', 'torch'} & sys.modules.keys()))"
    )
    assert (result.stdout, result.stderr) == ("[]\n", "")


@pytest.mark.process
def test_missing_jaxlib_says_what_to_install() -> None:
    result = run_python("import sys\nsys.modules['jaxlib'] = None\n" + MODULE)
    assert "MissingJaxError: lowering.stablehlo needs jaxlib to read StableHLO" in result.stderr
    assert result.stderr.rstrip().endswith("install it with: pip install jaxlib")


@pytest.mark.process
def test_missing_jax_says_what_to_install() -> None:
    result = run_python("import sys\nsys.modules['jax'] = None\n" + MODULE + "run(module)\n")
    assert "MissingJaxError: running or binding needs jax" in result.stderr
    assert result.stderr.rstrip().endswith("install it with: pip install jax")
