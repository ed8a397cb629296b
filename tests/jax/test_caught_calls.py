"""Calls of JAX functions that become composites: the same bits as without, forward and backward."""

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.caught import (
    Call,
    Function,
    all_with_and_without,
    assert_left_alone,
    assert_same_errors,
    calls_in,
    left_alone,
    linen_function,
    nnx_function,
    normal,
    reasons,
    same_without_jit,
    weighted,
    with_and_without,
)
from composites_testing.jax_calls import bits, composite_names
from flax import nnx

import composites.jax
from composites.errors import AllowlistError
from lowering.frontends.jax.internals import KNOWS_SUMS

X = normal(0, 4, 6)
BOOLEAN = jnp.asarray(np.asarray(X) > 0)
LABELS = jnp.asarray([0, 5, 2, 2], jnp.int32)
TARGETS = jnp.asarray(np.random.default_rng(2).random((4, 6)), jnp.float32)


@dataclass(frozen=True)
class Caught:
    """A function of one array that an entry catches."""

    entry: str
    run: Function
    has_backward: bool = True
    """True if the gradient is a composite too, where the input has no other uses."""
    arguments: Mapping[str, Any] | None = None
    """The entry's own arguments for the same, beside the array."""

    @property
    def composite(self) -> str:
        return f"ptxla.{self.entry}"

    @property
    def backwards(self) -> list[str]:
        keeps_sums = KNOWS_SUMS or hasattr(self.run, "lower")  # as what jax.jit returns has
        return [f"{self.composite}_backward"] if self.has_backward and keeps_sums else []


SOFTMAX = {"dim": 1}
FUNCTIONS = {
    "gelu": Caught("gelu", jax.nn.gelu, arguments={"approximate": "tanh"}),
    "exact gelu": Caught("gelu", lambda x: jax.nn.gelu(x, approximate=False)),
    "silu": Caught("silu", jax.nn.silu, arguments={}),
    "softmax": Caught("softmax", jax.nn.softmax, False, SOFTMAX),
    "mish": Caught("mish", jax.nn.mish, False, {}),
}
# Other functions call these, or these call others. JAX keeps what it traced of the inner one, so a
# program of both has more composites or fewer.
CALLING = {
    "hard_silu": Caught("hardswish", jax.nn.hard_silu, False, {}),
    "hard_sigmoid": Caught("hardsigmoid", jax.nn.hard_sigmoid, False, {}),
    "softplus": Caught("softplus", jax.nn.softplus, arguments={}),
}
MORE_FUNCTIONS = {
    "softmax of columns": Caught("softmax", partial(jax.nn.softmax, axis=0), False),
    "log_softmax": Caught("log_softmax", jax.nn.log_softmax, False, SOFTMAX),
    "elu": Caught("elu", jax.nn.elu, arguments={}),
    "selu": Caught(
        "elu", jax.nn.selu, arguments={"alpha": 1.6732632423543772, "scale": 1.0507009873554805}
    ),
    "celu": Caught("elu", jax.nn.celu, arguments={}),
    "leaky_relu": Caught("leaky_relu", jax.nn.leaky_relu, False, {}),
    "relu6": Caught("hardtanh", jax.nn.relu6, False, {"min_val": 0.0, "max_val": 6.0}),
    "hard_tanh": Caught("hardtanh", jax.nn.hard_tanh, False, {}),
    "glu": Caught("glu", jax.nn.glu, arguments={}),
}


@cache
def _package_functions() -> dict[str, Caught]:
    """Functions of flax and optax."""

    def norm(made: tuple[Function, Any]) -> Function:
        run, variables = made
        return lambda x: run(variables, x)[0]

    rngs = nnx.Rngs(0)
    losses: dict[str, tuple[str, Function, bool]] = {
        "squared error": ("mse_loss", lambda x: optax.squared_error(x, TARGETS), True),
        "l2 loss": ("mse_loss", lambda x: optax.l2_loss(x, TARGETS), True),
        "Huber loss": ("huber_loss", lambda x: optax.huber_loss(x, TARGETS, delta=0.5), True),
        "binary cross entropy": (
            "binary_cross_entropy_with_logits",
            lambda x: optax.sigmoid_binary_cross_entropy(x, TARGETS),
            False,
        ),
        "cross entropy": (
            "cross_entropy_loss",
            lambda x: optax.softmax_cross_entropy_with_integer_labels(x, LABELS),
            True,
        ),
    }
    return {name: Caught(*loss) for name, loss in losses.items()} | {
        "layer norm": Caught("layer_norm", norm(linen_function(nn.LayerNorm(), X))),
        "without bias": Caught("layer_norm", norm(linen_function(nn.LayerNorm(use_bias=False), X))),
        "RMS norm": Caught("rms_norm", norm(linen_function(nn.RMSNorm(), X))),
        "layer norm of nnx": Caught("layer_norm", norm(nnx_function(nnx.LayerNorm(6, rngs=rngs)))),
        "RMS norm of nnx": Caught("rms_norm", norm(nnx_function(nnx.RMSNorm(6, rngs=rngs)))),
    }


@pytest.fixture(
    params=[
        "few",
        pytest.param("all", marks=pytest.mark.slow),
        *(pytest.param(name, marks=pytest.mark.slow) for name in CALLING),
    ]
)
def functions(request: pytest.FixtureRequest) -> dict[str, Caught]:
    if request.param in CALLING:
        return {request.param: CALLING[request.param]}
    return FUNCTIONS if request.param == "few" else {**MORE_FUNCTIONS, **_package_functions()}


def _entries(functions: dict[str, Caught]) -> set[str]:
    return {caught.entry for caught in functions.values()}


def _with_and_without(functions: dict[str, Caught], change: Callable[[Caught], Function]) -> str:
    """The text of a program of each function."""
    programs: dict[str, Call] = {n: (change(caught), (X,)) for n, caught in functions.items()}
    return all_with_and_without(programs, *_entries(functions))


def test_forward(functions: dict[str, Caught]) -> None:
    text = _with_and_without(functions, lambda caught: caught.run)
    assert Counter(composite_names(text)) == Counter(c.composite for c in functions.values())


def test_gradient(functions: dict[str, Caught]) -> None:
    text = _with_and_without(functions, lambda c: jax.value_and_grad(partial(weighted, c.run)))
    expected = [name for c in functions.values() for name in (c.composite, *c.backwards)]
    assert set(composite_names(text)) == set(expected)


def test_gradient_of_an_input_with_other_uses(functions: dict[str, Caught]) -> None:
    # JAX adds up gradients in the reverse order of uses, and sums of floats depend on the order.
    def program(caught: Caught) -> Function:
        return jax.grad(lambda x: weighted(caught.run, x) + jnp.square(x).sum())

    _with_and_without(functions, program)


def test_loop(functions: dict[str, Caught]) -> None:
    """The backward computes again what JAX keeps from the loop of the forward, and XLA compiles
    both loops apart, so last bits may differ."""

    def scanned(function: Function, x: Any) -> Any:
        def step(total: Any, factor: Any) -> tuple[Any, None]:
            return total + weighted(function, x * factor), None

        return jax.lax.scan(step, jnp.zeros(()), jnp.arange(3.0))[0]

    def program(x: Any) -> Any:
        return [jax.value_and_grad(partial(scanned, c.run))(x) for c in functions.values()]

    expected = jax.jit(program)(X)
    with composites.jax.enabled(*_entries(functions)):
        lowered = jax.jit(program).lower(X)
    assert set(composite_names(lowered.as_text())) >= {c.composite for c in functions.values()}
    actual = lowered.compile()(X)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6), actual, expected)


@pytest.mark.slow
def test_vmap() -> None:
    many = jnp.stack([X, 2 * X, X - 1])
    programs: dict[str, Call] = {n: (jax.vmap(c.run), (many,)) for n, c in FUNCTIONS.items()}
    text = all_with_and_without(programs, *_entries(FUNCTIONS))
    assert Counter(composite_names(text)) == Counter(c.composite for c in FUNCTIONS.values())
    for name, caught in FUNCTIONS.items():
        programs[name] = jax.vmap(jax.grad(partial(weighted, caught.run))), (many,)
    all_with_and_without(programs, *_entries(FUNCTIONS))
    with composites.jax.enabled("softmax"):
        assert "dim = 1 : i64" in lowered(jax.vmap(partial(jax.nn.softmax, axis=0)), many)


@pytest.mark.slow
def test_outside_of_jit() -> None:
    def calls() -> Any:
        gradient = jax.grad(partial(weighted, jax.nn.gelu))
        return jax.nn.gelu(X), jax.nn.softmax(X), gradient(X)

    same_without_jit(calls, "gelu", "softmax")


# ---- what composites say ----


def lowered(function: Function, *arrays: Any) -> str:
    return str(jax.jit(function).lower(*arrays).as_text())


def test_attributes() -> None:
    with composites.jax.enabled("all"):
        assert 'approximate = "tanh"' in lowered(jax.nn.gelu, X)
        assert 'approximate = "none"' in lowered(lambda x: jax.nn.gelu(x, approximate=False), X)
        assert "dim = 0 : i64" in lowered(partial(jax.nn.softmax, axis=-2), X)
        assert "eps = 9.99999997E-7 : f32" in lowered(_package_functions()["layer norm"].run, X)


CORNERS = jnp.asarray(
    [[-jnp.inf, -30.0, -3.0, -1.0, -1e-30, -0.0], [0.0, 1e-30, 1.0, 3.0, 6.0, 30.0]], jnp.float32
)


@pytest.mark.slow
def test_functions_mean_their_entries() -> None:
    """The JAX function computes what the entry computes in PyTorch programs, also at corners."""
    caught_runs, entry_runs = {}, {}
    for name, caught in {**FUNCTIONS, **CALLING, **MORE_FUNCTIONS}.items():
        if caught.arguments is None:
            continue
        entry = partial(composites.jax.entry(caught.entry), **caught.arguments)
        x = CORNERS[1:] if "softmax" in name or name == "glu" else CORNERS[:, 1:]
        caught_runs[name], entry_runs[name] = partial(caught.run, x), partial(entry, x)
        if caught.has_backward:
            name = f"gradient of {name}"
            caught_runs[name] = partial(jax.grad(partial(weighted, caught.run)), x)
            entry_runs[name] = partial(jax.grad(partial(weighted, entry)), x)
    ours, theirs = (
        jax.jit(lambda calls=calls: {name: call() for name, call in calls.items()})()
        for calls in (caught_runs, entry_runs)
    )
    for name, result in ours.items():
        # At -30, the derivative of gelu is a small number times what tanh leaves of 1 - 1.
        np.testing.assert_allclose(result, theirs[name], rtol=2e-6, atol=1e-4, err_msg=name)


# ---- which references are caught ----


@pytest.mark.slow
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
    raw = inspect.unwrap(jax.nn.silu)
    before = raw.__code__, dict(vars(raw)), inspect.signature(jax.nn.silu)
    compiled = jax.jit(jax.nn.silu)
    results = bits(compiled(X))
    with composites.jax.enabled("silu"):
        assert raw.__code__ is not before[0]
        assert inspect.signature(jax.nn.silu) == before[2]
        assert bits(compiled(X)) == results
        assert calls_in(compiled.lower(X).as_text())
        with composites.jax.enabled("gelu"):
            assert composites.jax.active() == ("ptxla.gelu", "ptxla.silu")
        assert composites.jax.active() == ("ptxla.silu",)
    assert raw.__code__ is before[0]
    assert (vars(raw), inspect.signature(jax.nn.silu)) == before[1:]
    assert not calls_in(compiled.lower(X).as_text())


def test_enable_and_disable_and_wrong_names() -> None:
    composites.jax.enable("gelu", "silu")
    composites.jax.disable("gelu")
    assert composites.jax.active() == ("ptxla.silu",)
    composites.jax.disable()
    with pytest.raises(AllowlistError, match="did you mean 'gelu'"):
        composites.jax.enable("gellu")
    with pytest.raises(AllowlistError, match="no JAX function becomes this composite; choose from"):
        composites.jax.enable("dropout")
    assert composites.jax.active() == ()


# ---- what is left alone ----


LEFT_ALONE: dict[str, tuple[str, Function, str]] = {
    "where": ("softmax", lambda x: jax.nn.softmax(x, where=BOOLEAN), "`where` is given"),
    "several axes": ("softmax", lambda x: jax.nn.softmax(x, axis=(0, 1)), "is not one integer"),
    "slope": ("leaky_relu", lambda x: jax.nn.leaky_relu(x, 0.2), "negative_slope is an array"),
    "integers": ("gelu", lambda x: jax.nn.gelu(x.astype(jnp.int32)), "not an array of floats"),
    "a number": ("gelu", lambda x: jax.nn.gelu(2.0) * x, "not an array of floats"),
    "type of a number": ("gelu", lambda x: jax.nn.gelu(jnp.asarray(2.0)) * x, "type of a number"),
}


def test_calls_that_are_left_alone() -> None:
    plain: dict[str, Any] = {"use_bias": False, "use_scale": False}
    norm = "layer_norm"
    package_calls: dict[str, tuple[str, Function, str]] = {
        "mask": (norm, lambda x: nn.LayerNorm(**plain).apply({}, x, mask=BOOLEAN), "has a mask"),
        "other axes": (
            norm,
            lambda x: nn.LayerNorm(**plain, reduction_axes=0).apply({}, x),
            "its axes are not the last ones",
        ),
    }
    programs = {**LEFT_ALONE, **package_calls}
    assert_left_alone({n: (entry, (run, (X,)), why) for n, (entry, run, why) in programs.items()})

    def classes_in_front(x: Any) -> Any:
        labels = jnp.zeros(6, jnp.int32)
        return optax.softmax_cross_entropy_with_integer_labels(x, labels, axis=0)

    before = left_alone()
    with_and_without(classes_in_front, ("cross_entropy_loss",), X)
    left = reasons("cross_entropy_loss", before)
    assert any("classes are not the last dimension" in reason for reason in left)
    fallbacks = composites.jax.stats().entries["ptxla.gelu"].fallbacks
    assert any(__file__ in site for fallback in fallbacks for site in fallback.sites)


LOSSES = (
    "mse_loss", "huber_loss", "cross_entropy_loss", "binary_cross_entropy_with_logits",
)  # fmt: skip


@pytest.mark.slow
def test_arrays_of_numpy_and_odd_labels_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    logits, labels = normal(0, 3, 4, 5), jnp.asarray([[0, 4, 2, 1]] * 3, jnp.int32)
    narrow = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    wide = narrow.astype(np.float64)
    cross_entropy = optax.softmax_cross_entropy_with_integer_labels
    huber = partial(optax.huber_loss, logits, logits + 1)
    sigmoid = partial(optax.sigmoid_binary_cross_entropy, narrow, narrow)
    calls: dict[str, tuple[str, Function, str]] = {
        "squares": ("mse_loss", lambda: optax.squared_error(narrow, narrow + 1), "of numpy"),
        "squares in f64": ("mse_loss", lambda: optax.squared_error(wide, wide + 1), "of numpy"),
        "Huber loss": ("huber_loss", lambda: optax.huber_loss(narrow, narrow + 1), "of numpy"),
        "Huber loss in f64": ("huber_loss", lambda: optax.huber_loss(wide, wide + 1), "of numpy"),
        "no corner": ("huber_loss", partial(huber, delta=np.nan), "is not a number"),
        "a corner at 0": ("huber_loss", partial(huber, delta=0), "not above 0"),
        "sigmoid": ("binary_cross_entropy_with_logits", sigmoid, "of numpy"),
        **{
            name: ("cross_entropy_loss", partial(cross_entropy, *arguments), reason)
            for name, arguments, reason in (
                ("logits of numpy", (wide, np.array([1, 2, 3])), "of numpy"),
                ("a label", (logits[0, 0], 2), "not an array of i32"),
                ("a label of numpy", (logits[0, 0], np.int64(2)), "not an array of i32"),
                ("labels of a byte", (logits, labels.astype(jnp.int8)), "not an array of i32"),
                ("no classes", (logits[..., :0], labels), "there are no classes"),
            )
        },
    }
    with caplog.at_level(logging.DEBUG, "torch"):
        assert_left_alone({n: (entry, (call, ()), why) for n, (entry, call, why) in calls.items()})
        same_without_jit(lambda: [call() for _, call, _ in calls.values()], *LOSSES)
    assert not caplog.records

    def without_a_corner(x: Any) -> Any:
        return optax.huber_loss(x, 3 * x, delta=float("nan")).sum()

    same_without_jit(lambda: jax.grad(without_a_corner)(logits), *LOSSES)


def test_errors_are_those_of_the_program() -> None:
    logits, labels = normal(0, 3, 4, 5), jnp.asarray([[0, 4, 2, 1]] * 3, jnp.int32)
    cross_entropy = optax.softmax_cross_entropy_with_integer_labels
    sigmoid = optax.sigmoid_binary_cross_entropy
    calls: dict[str, Function] = {
        "an axis out of bounds": lambda: jax.nn.softmax(X, axis=7),
        "an axis that is not an integer": lambda: cross_entropy(logits, labels, -1.0),
        "an axis of numpy": lambda: cross_entropy(logits, labels, np.int32(-1)),
        "logits in a list": lambda: cross_entropy([1.0, 2.0], jnp.array(1)),
        "labels in a list": lambda: cross_entropy(logits[0], [1, 2, 3, 4]),
        "one label of many rows": lambda: cross_entropy(logits[0], 1),
        "one logit": lambda: cross_entropy(logits[0, 0, 0], labels[0, 0]),
        "no labels": lambda: sigmoid(logits, None),
        "numbers in a list": lambda: sigmoid([1.0], [1.0]),
    }
    assert_same_errors(calls, "softmax", *LOSSES)


@pytest.mark.slow
def test_negative_labels_count_from_the_last_class() -> None:
    logits, programs = normal(2, 2, 200), {}
    for label in (-1, -100, -200, -201, 200):

        def loss(x: Any, labels: Any) -> Any:
            return jnp.nansum(optax.softmax_cross_entropy_with_integer_labels(x, labels))

        call: Call = (jax.value_and_grad(loss), (logits, jnp.asarray([label, 3], jnp.int32)))
        programs[str(label)] = call
    text = all_with_and_without(programs, *LOSSES)
    assert text.count("ignore_index = -2147483648 : i64") == len(composite_names(text)) > 0


# ---- sharing ----


def test_equal_calls_share_one_decomposition() -> None:
    def program(x: Any) -> Any:
        gelu = jax.vmap(jax.nn.gelu)
        return gelu(gelu(x)).sum()

    with composites.jax.enabled("gelu"):
        text = lowered(jax.value_and_grad(program), X)
        forward = lowered(lambda x: jax.nn.gelu(jax.nn.gelu(jax.nn.gelu(x))), X)
    counts = Counter(composite_names(text))
    if KNOWS_SUMS:
        assert counts == {"ptxla.gelu": 2, "ptxla.gelu_backward": 2}
        assert text.count("func.func private") == 2
    else:  # the gradient is JAX's operations
        assert counts == {"ptxla.gelu": 2}
    assert forward.count("stablehlo.composite") == 3
    assert forward.count("func.func private") == 1
