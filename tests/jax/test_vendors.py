"""Entries of a vendor in JAX programs: forms of arrays that adapters have, mistakes in them,
decompositions in JAX, conditions, and functions that a release does not have."""

import json
from pathlib import Path

import pytest
from composites_testing.processes import run_python

from lowering.frontends.jax.internals import KNOWS_SUMS

pytestmark = pytest.mark.process

REGISTRY = Path(__file__).with_name("acme.yaml")
LIBRARY = """
import jax, jax.numpy as jnp

words = {}

def wave(x):
    return jnp.sin(x)

def sin(composite, x):
    return composite(x, **words)

def gelu(self, *, approximate="none"):
    return jax.nn.gelu(self, approximate=approximate == "tanh")

def adapt_gelu(composite, x, approximate=True):
    return composite(x, approximate="tanh" if approximate else "none")
"""
ORDERS = "orders=(((1, 0),), ((1, 0),))"
MISTAKES = {
    "orders=(((1, 0), None), (None,))": "orders has 2 of arrays, and there are 1",
    "orders=((None,), (None, None))": "orders has 2 of results, and there are 1",
    "orders=((None,),)": "orders has 1 parts, and not those of arrays and of results",
    "orders=(((0, 1, 2),), (None,))": "orders has (0, 1, 2) of arrays, for 2 dimensions",
    "many='rows'": "many is 'rows', and can be 'merged' or 'stacked'",
    "many='merged', orders=((None,), (None,))": "many and orders cannot both be given",
    "further=3": "it passes arguments that the entry does not have: got an unexpected keyword"
    " argument 'further'",
}
PROGRAM = f"""
import acme_jax, composites.jax, jax, jax.numpy as jnp, json
from composites.errors import AllowlistError, UnusableFunctionError
from composites_testing.jax_calls import composite_names

x = jnp.arange(6.0).reshape(2, 3)
lines = {{}}

def text(function, *arrays):
    return jax.jit(function).lower(*arrays).as_text()

def names(function):
    return composite_names(text(function, x))

# ---- adapters
before = jax.jit(lambda x: acme_jax.wave(x))(x)
lines["adapters"] = []
composites.jax.enable("acme.sin")
for words in {[ORDERS, *MISTAKES]}:
    acme_jax.words = eval(f"dict({{words}})")
    step = jax.jit(lambda x: acme_jax.wave(x))
    try:
        assert step(x).tobytes() == before.tobytes()
        (line,) = [line for line in step.lower(x).as_text().splitlines() if '"acme.sin"' in line]
        lines["adapters"].append(line.partition("}} : ")[2])
    except UnusableFunctionError as error:
        lines["adapters"].append(str(error))
composites.jax.disable()

# ---- decompositions
run = composites.jax.entry("acme.gelu")
inside = [names(run)]
with composites.jax.enabled("ptxla.gelu"):
    inside.append(names(run))
lines["inside"] = [*inside, names(run)]
gradient = jax.grad(lambda x: jax.nn.gelu(x).sum())
step, many = jax.vmap(gradient), jnp.stack([x, 2 * x])
before = jax.jit(step)(many)
with composites.jax.enabled("acme.gelu"):
    lines["caught"] = [names(jax.nn.gelu)]
    counts = composites.jax.stats().entries["acme.gelu"]
    lines["counts"] = [counts.calls, len(counts.fallbacks)]
    lines["caught"] += [names(gradient), composite_names(text(step, many))]
    assert (jax.jit(step)(many) == before).all()

# ---- conditions
run = composites.jax.entry("acme.tanh_gelu")
lines["conditions"] = [
    ["acme.tanh_gelu" in program, "version = 3" in program]
    for words in ({{"approximate": "tanh"}}, {{}})
    for program in [text(lambda x: run(x, **words), x)]
]
lines["names"] = [name for name in dir(composites.jax) if name == "acme.tanh_gelu"]

# ---- functions that are not there
lines["functions"] = []
others = "all", "-acme.no_function"
for chosen in (others, ["acme.moved"], ["acme.no_function"], ["all", "-acme.*"]):
    try:
        composites.jax.enable("silu")
        composites.jax.enable(*chosen)
        lines["functions"].append("ptxla.softmax" in composites.jax.active())
    except AllowlistError as error:
        lines["functions"].append(f"{{composites.jax.active()}} {{error}}")
    composites.jax.disable()
print(json.dumps(lines))
"""


def test_entries_of_a_vendor(tmp_path: Path) -> None:
    (tmp_path / "acme_jax.py").write_text(LIBRARY)
    root = Path(__file__).parents[2]
    finished = run_python(
        PROGRAM,
        PYTHONPATH=f"{tmp_path}:{root}:{root / 'tests/support'}",
        XLA_COMPOSITE_REGISTRY=str(REGISTRY),
    )
    lines = json.loads(finished.succeeded().stdout)
    prefix = f"acme.sin ({REGISTRY}:5): jax: acme_jax:sin: "
    expected = ["(tensor<3x2xf32>) -> tensor<3x2xf32>", *(prefix + p for p in MISTAKES.values())]
    assert lines["adapters"] == expected
    # What is on decides what is inside.
    outside, inside = ["acme.gelu"], ["acme.gelu", "ptxla.gelu"]
    assert lines["inside"] == [outside, inside, outside]
    # A decomposition may call what its entry catches. Where JAX does not say how it adds gradients
    # up, derivatives of caught calls are its own.
    backward = ["acme.gelu_backward"] if KNOWS_SUMS else []
    assert lines["caught"] == [outside, backward, backward]
    assert lines["counts"] == [1, 0]
    assert lines["conditions"] == [[True, True], [False, False]]
    assert lines["names"] == ["acme.tanh_gelu"]
    moved = ("moved", 21, "jax.nn has no gellu; did you mean 'gelu'?")
    problem = (
        "jax.numpy:add cannot be caught: it is not a plain function, or has variables of an"
        " enclosing one"
    )
    assert lines["functions"] == [
        *(
            f"('ptxla.silu',) acme.{name} ({REGISTRY}:{line}): jax: {problem}; correct it,"
            f" or turn the entry off with -{name}"
            for name, line, problem in (moved, moved, ("no_function", 27, problem))
        ),
        True,
    ]
