"""Entries of vendors whose decomposition is written in JAX, beside entries that catch the functions
that it calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from composites_testing.processes import run_python

from lowering.frontends.jax.internals import knows_sums

REGISTRY = """
schema: 1
namespace: acme
composites:
  gelu:
    op: aten::gelu
    attributes: {approximate: approximate}
    decomposition: jax:acme_jax:gelu
    backward: derive
    jax: {"jax.nn:gelu": "acme_jax:adapt_gelu"}
"""
LIBRARY = """
import jax

def gelu(self, *, approximate="none"):
    return jax.nn.gelu(self, approximate=approximate == "tanh")

def adapt_gelu(composite, x, approximate=True):
    return composite(x, approximate="tanh" if approximate else "none")
"""
PROGRAM = """
import composites.jax, jax, jax.numpy as jnp
from composites_testing.jax_calls import composite_names

x = jnp.ones((2, 3))

def names(function):
    return composite_names(jax.jit(function).lower(x).as_text())

"""


def _run(folder: Path, lines: str) -> list[str]:
    """What a program prints."""
    (folder / "acme.yaml").write_text(REGISTRY)
    (folder / "acme_jax.py").write_text(LIBRARY)
    root = Path(__file__).parents[2]
    finished = run_python(
        PROGRAM + lines,
        PYTHONPATH=f"{folder}:{root}:{root / 'tests/support'}",
        XLA_COMPOSITE_REGISTRY=str(folder / "acme.yaml"),
    )
    assert not finished.code, finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.process
def test_what_is_on_decides_what_is_inside(tmp_path: Path) -> None:
    program = """
run = composites.jax.entry("acme.gelu")
print(names(run))
with composites.jax.enabled("ptxla.gelu"):
    print(names(run))
print(names(run))
"""
    outside, inside = "['acme.gelu']", "['acme.gelu', 'ptxla.gelu']"
    assert _run(tmp_path, program) == [outside, inside, outside]


@pytest.mark.process
def test_a_decomposition_may_call_what_its_entry_catches(tmp_path: Path) -> None:
    program = """
gradient = jax.grad(lambda x: jax.nn.gelu(x).sum())
step, many = jax.vmap(gradient), jnp.stack([x, 2 * x])
before = jax.jit(step)(many)
with composites.jax.enabled("acme.gelu"):
    print(names(jax.nn.gelu))
    counts = composites.jax.stats().entries["acme.gelu"]
    print(counts.calls, len(counts.fallbacks))
    print(names(gradient))
    assert (jax.jit(step)(many) == before).all()
    print(composite_names(jax.jit(step).lower(many).as_text()))
"""
    # Where JAX does not say how it adds gradients up, derivatives of caught calls are its own.
    backward = "['acme.gelu_backward']" if knows_sums() else "[]"
    assert _run(tmp_path, program) == ["['acme.gelu']", "1 0", backward, backward]
