"""Calls of JAX functions that become composites: the same bits as without, forward and backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.jax_calls import bits, composite_names
from flax import nnx

import composites.jax
from composites.errors import AllowlistError
from lowering.frontends.jax.internals import knows_sums

X = jax.random.normal(jax.random.key(0), (4, 6))
LABELS = jnp.array([0, 5, 2, 2])
TARGETS = jax.random.uniform(jax.random.key(2), (4, 6))


@dataclass(frozen=True)
class Caught:
    """A function of one array that an entry catches."""

    entry: str
    run: Callable[[Any], Any]
    has_backward: bool = True
    """Whether its gradient is a composite too, where its input has no other uses."""

    @property
    def composite(self) -> str:
        return f"ptxla.{self.entry}"


def _linen(module: nn.Module) -> Callable[[Any], Any]:
    variables = module.init(jax.random.key(1), X)
    return lambda x: module.apply(variables, x)


def _nnx(make: Callable[..., Any]) -> Callable[[Any], Any]:
    graph, state = nnx.split(make(6, rngs=nnx.Rngs(0)))
    return lambda x: nnx.merge(graph, state)(x)


FUNCTIONS = {
    "gelu": Caught("gelu", jax.nn.gelu),
    "exact gelu": Caught("gelu", lambda x: jax.nn.gelu(x, approximate=False)),
    "silu": Caught("silu", jax.nn.silu),
    "softmax": Caught("softmax", jax.nn.softmax, has_backward=False),
    "linen layer norm": Caught("layer_norm", _linen(nn.LayerNorm())),
}
MORE_FUNCTIONS = {
    "mish": Caught("mish", jax.nn.mish, has_backward=False),
    "hard_silu": Caught("hardswish", jax.nn.hard_silu, has_backward=False),
    "hard_sigmoid": Caught("hardsigmoid", jax.nn.hard_sigmoid, has_backward=False),
    "softmax of columns": Caught("softmax", partial(jax.nn.softmax, axis=0), has_backward=False),
    "log_softmax": Caught("log_softmax", jax.nn.log_softmax, has_backward=False),
    "elu": Caught("elu", jax.nn.elu),
    "selu": Caught("elu", jax.nn.selu),
    "celu": Caught("elu", jax.nn.celu),
    "squared error": Caught("mse_loss", lambda x: optax.squared_error(x, TARGETS)),
    "l2 loss": Caught("mse_loss", lambda x: optax.l2_loss(x, TARGETS)),
    "Huber loss": Caught("huber_loss", lambda x: optax.huber_loss(x, TARGETS, delta=0.5)),
    "binary cross entropy": Caught(
        "binary_cross_entropy_with_logits",
        lambda x: optax.sigmoid_binary_cross_entropy(x, TARGETS),
        has_backward=False,
    ),
    "leaky_relu": Caught("leaky_relu", jax.nn.leaky_relu, has_backward=False),
    "relu6": Caught("hardtanh", jax.nn.relu6, has_backward=False),
    "hard_tanh": Caught("hardtanh", jax.nn.hard_tanh, has_backward=False),
    "softplus": Caught("softplus", jax.nn.softplus),
    "glu": Caught("glu", jax.nn.glu),
    "linen layer norm without bias": Caught("layer_norm", _linen(nn.LayerNorm(use_bias=False))),
    "linen RMS norm": Caught("rms_norm", _linen(nn.RMSNorm())),
    "nnx layer norm": Caught("layer_norm", _nnx(nnx.LayerNorm)),
    "nnx RMS norm": Caught("rms_norm", _nnx(nnx.RMSNorm)),
    "cross entropy": Caught(
        "cross_entropy_loss",
        lambda x: optax.softmax_cross_entropy_with_integer_labels(x, LABELS),
    ),
}


@pytest.fixture(
    params=[
        *FUNCTIONS.items(),
        *(pytest.param(item, marks=pytest.mark.exhaustive) for item in MORE_FUNCTIONS.items()),
    ],
    ids=lambda item: item[0],
)
def caught(request: pytest.FixtureRequest) -> Caught:
    return request.param[1]


@pytest.fixture(autouse=True)
def _all_off() -> Iterator[None]:
    yield
    composites.jax.disable()


def weighted(function: Callable[[Any], Any], x: Any) -> Any:
    """A sum with other weights for each result."""
    result = function(x)
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


def scanned(function: Callable[[Any], Any], x: Any) -> Any:
    """The sum of three calls in a loop."""

    def step(total: Any, factor: Any) -> tuple[Any, None]:
        return total + weighted(function, x * factor), None

    return jax.lax.scan(step, jnp.zeros(()), jnp.arange(3.0))[0]


def assert_same_bits(found: Any, expected: Any) -> None:
    assert bits(found) == bits(expected)


def assert_same_but_for_last_bits(found: Any, expected: Any) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6), found, expected)


def with_and_without(
    program: Callable[..., Any],
    entries: tuple[str, ...],
    *arrays: Any,
    check: Callable[[Any, Any], None] = assert_same_bits,
) -> Counter[str]:
    """The composites of a program while entries are on. Its results are those without, and the
    program is as before after the entries are off again."""
    compiled = jax.jit(program)
    before = compiled(*arrays)
    plain = compiled.lower(*arrays).as_text()
    with composites.jax.enabled(*entries):
        check(compiled(*arrays), before)
        found = composite_names(compiled.lower(*arrays).as_text())
    assert compiled.lower(*arrays).as_text() == plain
    assert "stablehlo.composite" not in plain
    return Counter(found)


@pytest.mark.names
def test_forward(caught: Caught) -> None:
    assert with_and_without(caught.run, (caught.entry,), X) == {caught.composite: 1}


def test_gradient(caught: Caught) -> None:
    program = jax.value_and_grad(partial(weighted, caught.run))
    keeps_sums = knows_sums() or hasattr(caught.run, "lower")  # as what jax.jit returns has
    expected = {caught.composite} | (
        {f"{caught.composite}_backward"} if caught.has_backward and keeps_sums else set()
    )
    assert with_and_without(program, (caught.entry,), X).keys() == expected


def test_gradient_of_an_input_with_other_uses(caught: Caught) -> None:
    # JAX adds up gradients in the reverse order of uses, and sums of floats depend on the order.
    def program(x: Any) -> Any:
        return weighted(caught.run, x) + jnp.square(x).sum()

    found = with_and_without(jax.grad(program), (caught.entry,), X)
    assert found.keys() <= {caught.composite, f"{caught.composite}_backward"}


def test_loop(caught: Caught) -> None:
    # The backward computes again what JAX keeps from the loop of the forward, and XLA compiles both
    # loops apart.
    program = jax.value_and_grad(partial(scanned, caught.run))
    found = with_and_without(program, (caught.entry,), X, check=assert_same_but_for_last_bits)
    assert found.keys() <= {caught.composite, f"{caught.composite}_backward"}
    assert found


@pytest.mark.parametrize("name", ["gelu", "silu", "softmax", "linen layer norm"])
def test_vmap(name: str) -> None:
    caught, many = FUNCTIONS[name], jnp.stack([X, 2 * X, X - 1])
    assert with_and_without(jax.vmap(caught.run), (caught.entry,), many) == {caught.composite: 1}
    grad = jax.vmap(jax.grad(partial(weighted, caught.run)))
    with_and_without(grad, (caught.entry,), many)


def test_vmap_moves_the_dimension() -> None:
    many = jnp.stack([X, 2 * X])
    with composites.jax.enabled("softmax"):
        text = jax.jit(jax.vmap(partial(jax.nn.softmax, axis=0))).lower(many).as_text()
    assert "dim = 1 : i64" in text


def test_outside_of_jit() -> None:
    before = bits([jax.nn.gelu(X), jax.nn.softmax(X), jax.grad(partial(weighted, jax.nn.gelu))(X)])
    with composites.jax.enabled("gelu", "softmax"):
        after = [jax.nn.gelu(X), jax.nn.softmax(X), jax.grad(partial(weighted, jax.nn.gelu))(X)]
    assert bits(after) == before


# ---- what composites say ----


def lowered(function: Callable[..., Any], *arrays: Any) -> str:
    return jax.jit(function).lower(*arrays).as_text()


def test_attributes() -> None:
    with composites.jax.enabled("all"):
        assert 'approximate = "tanh"' in lowered(jax.nn.gelu, X)
        assert 'approximate = "none"' in lowered(lambda x: jax.nn.gelu(x, approximate=False), X)
        assert "dim = 0 : i64" in lowered(partial(jax.nn.softmax, axis=-2), X)
        assert "eps = 9.99999997E-7 : f32" in lowered(FUNCTIONS["linen layer norm"].run, X)


CORNERS = jnp.array(
    [[-jnp.inf, -30.0, -3.0, -1.0, -1e-30, -0.0], [0.0, 1e-30, 1.0, 3.0, 6.0, 30.0]]
)


@pytest.mark.parametrize("name", [n for n in {**FUNCTIONS, **MORE_FUNCTIONS} if " " not in n])
def test_functions_mean_their_entries(name: str) -> None:
    """The JAX function computes what the entry computes in PyTorch programs, also at corners."""
    caught = {**FUNCTIONS, **MORE_FUNCTIONS}[name]
    arguments: dict[str, Any] = {
        "gelu": {"approximate": "tanh"},
        "softmax": {"dim": 1, "half_to_float": False},
        "log_softmax": {"dim": 1, "half_to_float": False},
        "relu6": {"min_val": 0.0, "max_val": 6.0},
        "selu": {"alpha": 1.6732632423543772, "scale": 1.0507009873554805},
    }
    entry = partial(composites.jax.entry(caught.entry), **arguments.get(name, {}))
    x = CORNERS[1:] if "softmax" in name or name == "glu" else CORNERS[:, 1:]
    for one, other in [
        (caught.run, entry),
        *([(jax.grad(partial(weighted, caught.run)), jax.grad(partial(weighted, entry)))]
          if caught.has_backward else []),
    ]:  # fmt: skip
        # At -30, the derivative of gelu is a small number times what tanh leaves of 1 - 1.
        np.testing.assert_allclose(one(x), other(x), rtol=2e-6, atol=1e-4)


# ---- which references are caught ----


def test_references_from_before() -> None:
    from jax.nn import gelu, silu

    class Model(nn.Module):
        activation: Callable[[Any], Any] = nn.gelu

        @nn.compact
        def __call__(self, x: Any) -> Any:
            return self.activation(x)

    held: dict[str, Any] = {"gelu": partial(gelu, approximate=False), "silu": silu}
    with composites.jax.enabled("gelu", "silu"):
        assert "ptxla.gelu" in lowered(lambda x: Model().apply({}, x), X)
        assert "ptxla.gelu" in lowered(held["gelu"], X)
        assert "ptxla.silu" in lowered(held["silu"], X)
        assert "ptxla.silu" in lowered(nnx.swish, X)


def test_off_restores_the_functions() -> None:
    import inspect

    raw = inspect.unwrap(jax.nn.silu)
    before = raw.__code__, dict(vars(raw)), inspect.signature(jax.nn.silu)
    with composites.jax.enabled("silu"):
        assert raw.__code__ is not before[0]
        assert inspect.signature(jax.nn.silu) == before[2]
        with composites.jax.enabled("gelu"):
            assert composites.jax.active() == ("ptxla.gelu", "ptxla.silu")
        assert composites.jax.active() == ("ptxla.silu",)
    assert raw.__code__ is before[0]
    assert (vars(raw), inspect.signature(jax.nn.silu)) == before[1:]


def test_enable_and_disable() -> None:
    composites.jax.enable("gelu", "silu")
    composites.jax.disable("gelu")
    assert composites.jax.active() == ("ptxla.silu",)
    composites.jax.disable()
    assert composites.jax.active() == ()


def test_wrong_names() -> None:
    with pytest.raises(AllowlistError, match="did you mean 'gelu'"):
        composites.jax.enable("gellu")
    with pytest.raises(AllowlistError, match="no call of a JAX program becomes this; write some"):
        composites.jax.enable("dropout")
    assert composites.jax.active() == ()


# ---- what falls back ----

BOOLEAN = X > 0
FALLBACKS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "where": ("softmax", lambda x: jax.nn.softmax(x, where=BOOLEAN), "`where` is given"),
    "several axes": ("softmax", lambda x: jax.nn.softmax(x, axis=(0, 1)), "over several axes"),
    "slope": ("leaky_relu", lambda x: jax.nn.leaky_relu(x, 0.2), "negative_slope is an array"),
    "integers": ("gelu", lambda x: jax.nn.gelu(x.astype(jnp.int32)), "no array of floats"),
    "a number": ("gelu", lambda x: jax.nn.gelu(2.0) * x, "no array of floats"),
    "type of a number": ("gelu", lambda x: jax.nn.gelu(jnp.asarray(2.0)) * x, "type of a number"),
    "mask": (
        "layer_norm",
        lambda x: nn.LayerNorm(use_bias=False, use_scale=False).apply({}, x, mask=BOOLEAN),
        "it has a mask",
    ),
    "other axes": (
        "layer_norm",
        lambda x: nn.LayerNorm(use_scale=False, use_bias=False, reduction_axes=0).apply({}, x),
        "its axes are not the last ones",
    ),
    "other type": (
        "layer_norm",
        lambda x: MORE_FUNCTIONS["nnx layer norm"].run(x.astype(jnp.bfloat16)),
        "results are not those of the entry",
    ),
    "classes in front": (
        "cross_entropy_loss",
        lambda x: optax.softmax_cross_entropy_with_integer_labels(
            x, jnp.zeros(6, jnp.int32), axis=0
        ),
        "classes are not the last dimension",
    ),
}


@pytest.mark.parametrize("case", FALLBACKS.values(), ids=FALLBACKS)
def test_fallback(case: tuple[str, Callable[[Any], Any], str]) -> None:
    entry, program, reason = case
    assert with_and_without(program, (entry,), X).keys() <= {"ptxla.softmax"}
    found = composites.jax.stats().entries[f"ptxla.{entry}"].fallbacks
    sites = [site for f in found if reason in f.reason for site in f.sites]
    assert any(__file__ in site for site in sites)


def test_mistakes_are_those_of_jax() -> None:
    with composites.jax.enabled("softmax"), pytest.raises(ValueError, match="out of bounds"):
        jax.nn.softmax(X, axis=7)


def test_statistics_count_calls() -> None:
    before = composites.jax.stats().entries.get("ptxla.gelu")
    with composites.jax.enabled("gelu"):
        jax.jit(lambda x: jax.nn.gelu(x) + jax.nn.gelu(x + 1)).lower(X)
        found = composites.jax.stats().entries["ptxla.gelu"]
        assert found.on
    assert found.calls == (before.calls if before else 0) + 2
    assert not composites.jax.stats().entries["ptxla.gelu"].on


def test_equal_calls_of_many_share_one_decomposition() -> None:
    def program(x: Any) -> Any:
        gelu = jax.vmap(jax.nn.gelu)
        return gelu(gelu(x)).sum()

    with composites.jax.enabled("gelu"):
        text = lowered(jax.value_and_grad(program), X)
    found = Counter(composite_names(text))
    if knows_sums():
        assert found == {"ptxla.gelu": 2, "ptxla.gelu_backward": 2}
        assert text.count("func.func private") == 2
    else:  # the gradient is JAX's operations
        assert found == {"ptxla.gelu": 2}


def test_equal_calls_share_one_decomposition() -> None:
    def program(x: Any) -> Any:
        return jax.nn.gelu(jax.nn.gelu(jax.nn.gelu(x)))

    with composites.jax.enabled("gelu"):
        text = lowered(program, X)
    assert text.count("stablehlo.composite") == 3
    assert text.count("func.func private") == 1
