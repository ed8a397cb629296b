"""What adapters of vendors say of a call: forms of arrays, and mistakes in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from composites_testing.processes import run_python

REGISTRY = """
schema: 1
namespace: acme
composites:
  sin:
    op: aten::sin
    version: 1
    decomposition: native
    jax: {"acme_jax:wave": "acme_jax:sin"}
"""
LIBRARY = """
import jax.numpy as jnp

words = {}

def wave(x):
    return jnp.sin(x)

def sin(composite, x):
    return composite(x, **words)
"""
PROGRAM = """
import acme_jax, composites.jax, jax, jax.numpy as jnp
from composites.errors import UnusableFunctionError

x = jnp.arange(6.0).reshape(2, 3)
before = jax.jit(lambda x: acme_jax.wave(x))(x)
composites.jax.enable("acme.sin")

def show(**words):
    acme_jax.words = words
    step = jax.jit(lambda x: acme_jax.wave(x))
    try:
        assert step(x).tobytes() == before.tobytes()
        (line,) = [line for line in step.lower(x).as_text().splitlines() if '"acme.sin"' in line]
        print(line.partition("} : ")[2])
    except UnusableFunctionError as error:
        print(error)

"""


def _run(folder: Path, calls: Sequence[str]) -> list[str]:
    """What becomes of a function whose adapter calls the composite with these words."""
    (folder / "acme.yaml").write_text(REGISTRY)
    (folder / "acme_jax.py").write_text(LIBRARY)
    finished = run_python(
        PROGRAM + "\n".join(f"show({words})" for words in calls),
        PYTHONPATH=f"{folder}:{Path(__file__).parents[2]}",
        XLA_COMPOSITE_REGISTRY=str(folder / "acme.yaml"),
    )
    assert not finished.code, finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.process
def test_orders_of_one_result(tmp_path: Path) -> None:
    found = _run(tmp_path, ["orders=(((1, 0),), ((1, 0),))"])
    assert found == ["(tensor<3x2xf32>) -> tensor<3x2xf32>"]


MISTAKES = {
    "orders=(((1, 0), None), (None,))": "orders has 2 of arrays, and there are 1",
    "orders=((None,), (None, None))": "orders has 2 of results, and there are 1",
    "orders=((None,),)": "orders has 1 parts, and not those of arrays and of results",
    "orders=(((0, 1, 2),), (None,))": "orders has (0, 1, 2) of arrays, for 2 dimensions",
    "many='rows'": "many is 'rows', and can be 'merged' or 'stacked'",
    "many='merged', orders=((None,), (None,))": "many and orders cannot both be given",
}


@pytest.mark.process
def test_mistakes_of_an_adapter(tmp_path: Path) -> None:
    place = f"acme.sin ({tmp_path / 'acme.yaml'}:5): jax: acme_jax:sin: "
    assert _run(tmp_path, [*MISTAKES]) == [place + problem for problem in MISTAKES.values()]
