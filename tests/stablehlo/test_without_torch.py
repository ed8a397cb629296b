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
def test_a_missing_package_says_what_to_install() -> None:
    for package, call, problem in (
        ("jaxlib", "", "lowering.stablehlo needs jaxlib to read StableHLO"),
        ("jax", "run(module)\n", "running or binding needs jax"),
    ):
        result = run_python(f"import sys\nsys.modules['{package}'] = None\n{MODULE}{call}")
        assert f"MissingJaxError: {problem}" in result.stderr
        assert result.stderr.rstrip().endswith(f"install it with: pip install {package}")
