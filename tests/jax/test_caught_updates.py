"""Updates of optax as composites. The functions that make them are local to others."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.caught import calls_in, left_alone, normal, reasons
from composites_testing.jax_calls import bits, composite_names

import composites.jax
from lowering.stablehlo.run import enable_x64

ADAM = "scale_by_adam"


def _parameters(dtype: Any = jnp.float32) -> dict[str, Any]:
    shapes: tuple[tuple[int, ...], ...] = ((2, 3), (5,), ())
    return {str(n): normal(n, *shape).astype(dtype) for n, shape in enumerate(shapes)}


class Training:
    """Steps of optimizers, which are compiled as one. The gradients change."""

    def __init__(self, optimizers: dict[str, Any], parameters: Any) -> None:
        self.optimizers, self.parameters = optimizers, parameters
        self.step = jax.jit(self._step)

    def _step(self, values: dict[str, Any]) -> dict[str, Any]:
        return {n: self._step_of(optimizer, *values[n]) for n, optimizer in self.optimizers.items()}

    def _step_of(self, optimizer: Any, parameters: Any, state: Any) -> Any:
        gradients = jax.tree.map(lambda p: (jnp.sin(p) * 3).astype(p.dtype), parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    def start(self) -> dict[str, Any]:
        return {n: (self.parameters, o.init(self.parameters)) for n, o in self.optimizers.items()}

    def run(self) -> dict[str, Any]:
        """The bits of parameters and states after three steps, for each optimizer."""
        values = self.start()
        for _ in range(3):
            values = self.step(values)
        return {name: bits(value) for name, value in values.items()}

    def composites(self) -> Counter[str]:
        return Counter(composite_names(self.step.lower(self.start()).as_text()))


def _trains_as_without(optimizers: dict[str, Any], parameters: Any, *entries: str) -> Counter[str]:
    """The composites of optimizers. All bits are those without."""
    training = Training(optimizers, parameters)
    before = training.run()
    with composites.jax.enabled(*entries):
        after, counts = training.run(), training.composites()
    assert [name for name in optimizers if after[name] != before[name]] == []
    assert not training.composites()
    return counts


def _optimizers() -> dict[str, Any]:
    return {
        "adam": optax.adam(1e-2, eps_root=1e-6),
        "adamw": optax.adamw(optax.cosine_decay_schedule(1e-2, 10), b1=0.8, weight_decay=0.1),
        "nadam": optax.nadam(1e-2),
        "nadamw": optax.nadamw(1e-2),
        "lamb": optax.lamb(1e-2),
        "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2)),
        "masked": optax.masked(optax.adam(1e-2), {"0": True, "1": False, "2": True}),
        "accumulated": optax.MultiSteps(optax.adam(1e-2), 2),
        "integer": optax.adam(1e-2, b1=0),
        # Averages keep their type, as `mu_dtype` asks for.
        "averages of another type": optax.adam(1e-2, mu_dtype=jnp.bfloat16),
        "lion": optax.lion(1e-2, b1=0.8, weight_decay=0.1),
        "lion, other averages": optax.lion(1e-2, mu_dtype=jnp.bfloat16),
        "sgd": optax.sgd(1e-2, momentum=0.9),
        "nesterov": optax.sgd(1e-2, momentum=0.9, nesterov=True),
        "rmsprop": optax.rmsprop(1e-2, momentum=0.9),
        "sums of another type": optax.sgd(1e-2, 0.9, accumulator_dtype=jnp.bfloat16),
        "integer momentum": optax.sgd(1e-2, momentum=1),
        # They have no composite.
        "sgd without momentum": optax.sgd(1e-2),
        "smooth": optax.scale_by_lion(mode="smooth"),
        "refined": optax.scale_by_lion(mode="refined"),
    }


EXPECTED = {"ptxla.scale_by_adam": 3 * 9 + 2, "ptxla.scale_by_lion": 6, "ptxla.momentum_trace": 15}
"""Numbers of composites: one for each parameter that is not masked."""


ENTRIES = (ADAM, "scale_by_lion", "momentum_trace")


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(jnp.float32, marks=pytest.mark.slow),
        pytest.param(jnp.bfloat16, marks=pytest.mark.exhaustive),
    ],
    ids=["f32", "bf16"],
)
def test_bits_of_all_optimizers(dtype: Any) -> None:
    assert _trains_as_without(_optimizers(), _parameters(dtype), *ENTRIES) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=["f32", "f64"])
def test_types_of_64_bits(dtype: Any) -> None:
    """JAX computes the divisors in f64 where types of 64 bits are on."""
    with enable_x64():
        counts = _trains_as_without({"": optax.nadamw(1e-2)}, _parameters(dtype), ADAM)
    assert counts == {"ptxla.scale_by_adam": 3}


@pytest.mark.slow
def test_trees_of_every_form() -> None:
    """XLA multiplies with the reciprocal of a divisor with one use, with and without composites."""

    class Pair(tuple[Any, ...]):
        """A node that JAX takes for a leaf if it is not registered."""

    jax.tree_util.register_pytree_node(Pair, lambda p: (tuple(p), None), lambda _, c: Pair(c))
    array = jnp.ones(2)
    trees: tuple[Any, ...] = (
        array, normal(3), normal(3, 64, 33), [array, {"a": (array,)}], Pair((array, array)),
        {"a": None, "b": array}, {},
    )  # fmt: skip
    for parameters in trees:
        counts = _trains_as_without({"": optax.scale_by_adam()}, parameters, ADAM)
        assert counts["ptxla.scale_by_adam"] == len(jax.tree.leaves(parameters))


@pytest.mark.slow
def test_update_without_a_jit_and_without_parameters() -> None:
    """Averages have a rounding more without `jax.jit` where XLA fuses the composite."""
    transformation, gradients = optax.scale_by_adam(), _parameters()
    state = transformation.init(gradients)
    expected = transformation.update(gradients, state)
    with composites.jax.enabled(ADAM):
        actual = transformation.update(gradients, state)
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), actual, expected)


def test_attributes_and_operands() -> None:
    transformation = optax.scale_by_adam(b1=0.5, b2=0.25, eps=0.125, eps_root=2.0, nesterov=True)
    ones = jnp.ones(3)
    with composites.jax.enabled(ADAM):
        text = jax.jit(transformation.update).lower(ones, transformation.init(ones)).as_text()
    (line,) = calls_in(text)
    assert (
        "{beta1 = 5.000000e-01 : f32, beta2 = 2.500000e-01 : f32, eps = 1.250000e-01 : f32,"
        " eps_root = 2.000000e+00 : f32}"
    ) in line
    row = ", ".join(["tensor<3xf32>"] * 3)
    assert f"({row}, tensor<f32>, tensor<f32>, tensor<f32>) -> ({row})" in line


def test_entries_mean_what_optax_computes() -> None:
    """The decompositions in PyTorch are the contract that a kernel is written for."""
    close = partial(jax.tree.map, partial(np.testing.assert_allclose, rtol=2e-6))
    random = np.random.default_rng(1)
    grad, mu, nu = (jnp.asarray(random.random((3, 4)), jnp.float32) for _ in range(3))
    for nesterov in (False, True):
        for count in (0, 4):
            adam = optax.scale_by_adam(0.8, 0.9, 1e-3, 1e-2, nesterov=nesterov)
            before = optax.ScaleByAdamState(jnp.int32(count), mu, nu)
            direction, after = adam.update(grad, before)
            step = count + 1
            powers = (0.8 ** (step + nesterov), 0.9**step, *([0.8**step] if nesterov else []))
            actual = composites.jax.scale_by_adam(
                grad, mu, nu, *(jnp.float32(1 - power) for power in powers),
                beta1=0.8, beta2=0.9, eps=1e-3, eps_root=1e-2,
            )  # fmt: skip
            close(actual, [direction, after.mu, after.nu])
        direction, sums = optax.trace(0.8, nesterov).update(grad, optax.TraceState(mu))
        actual = composites.jax.momentum_trace(grad, mu, decay=0.8, nesterov=nesterov)
        close(actual, [direction, sums.trace])
    lion = optax.scale_by_lion(0.8, 0.9)
    direction, after = lion.update(grad, optax.ScaleByLionState(jnp.int32(1), mu))
    actual = composites.jax.scale_by_lion(grad, mu, beta1=0.8, beta2=0.9)
    close(actual, [direction, after.mu])


@pytest.mark.slow
def test_transformations() -> None:
    transformation = optax.scale_by_adam()
    state = transformation.init(jnp.ones(3))

    def many(grads: Any) -> Any:
        def step(state: Any, grad: Any) -> Any:
            update, state = transformation.update(grad, state)
            return state, update

        return jax.lax.scan(step, transformation.init(grads[0]), grads)

    def gradient(x: Any) -> Any:
        return jax.grad(lambda x: (transformation.update(x, state)[0] * jnp.arange(3.0)).sum())(x)

    grads = normal(2, 4, 3, 5)
    for program, x, names in (
        (many, grads, ["ptxla.scale_by_adam"]),
        (jax.vmap(many, in_axes=1), grads, ["ptxla.scale_by_adam"]),
        (gradient, jnp.ones(3) / 3, None),
    ):
        before = bits(jax.jit(program)(x))
        with composites.jax.enabled(ADAM):
            lowered = jax.jit(program).lower(x)
        assert names is None or composite_names(lowered.as_text()) == names
        assert bits(lowered.compile()(x)) == before


@pytest.mark.slow
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("shape", [(4,), (4, 3)], ids=str)
def test_divisors_of_each_model(shape: tuple[int, ...], nesterov: bool) -> None:
    """Divisors are arrays where each model has a state; the composite takes numbers."""
    transformation = optax.scale_by_adam(nesterov=nesterov)
    grads = normal(2, *shape)
    state = jax.vmap(transformation.init)(grads)
    own = jax.jit(jax.vmap(transformation.update))
    before = bits(own(grads, state))
    # With one count for all, they are.
    axes = optax.ScaleByAdamState(None, 0, 0)
    shared_update = jax.jit(jax.vmap(transformation.update, in_axes=(0, axes), out_axes=(0, axes)))
    shared = state._replace(count=state.count[0])
    with composites.jax.enabled(ADAM):
        assert bits(own(grads, state)) == before
        assert not composite_names(own.lower(grads, state).as_text())
        (line,) = calls_in(shared_update.lower(grads, shared).as_text())
    array = "x".join(map(str, shape))
    operands = [f"tensor<{array}xf32>"] * 3 + ["tensor<f32>"] * (2 + nesterov)
    assert f": ({', '.join(operands)}) -> " in line


# ---- what is left alone ----


@pytest.mark.slow
def test_what_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ones, adam = jnp.ones(3), optax.scale_by_adam
    cases: list[tuple[Any, Any, Any, str]] = [
        (adam(), jnp.ones(2, jnp.complex64), jnp.ones(2, jnp.complex64), "not an array of floats"),
        (adam(), 1.0, jnp.ones(2), "not an array of floats"),
        (adam(), jnp.ones((3, 1)), jnp.ones(2), "different shapes"),
        (adam(), [jnp.ones(2)], jnp.ones(2), "different trees"),
        (
            optax.inject_hyperparams(optax.adam)(learning_rate=1e-2, b1=0.8),
            ones, ones, "b1 is not a Python number",
        ),
        # The averages become those of optax, f32. The entry's would keep their type.
        (adam(), ones, jnp.ones(3, jnp.bfloat16), "optax has other operations"),
    ]  # fmt: skip
    for transformation, gradient, like, reason in cases:
        state, since, results = transformation.init(like), left_alone(), []
        for around in (nullcontext(), composites.jax.enabled(ADAM)):
            with around:
                try:
                    results.append(bits(transformation.update(gradient, state)))
                except ValueError as error:  # of optax, for trees
                    results.append([str(error)])
        assert any(reason in text for text in reasons(ADAM, since)), reason
        assert results[0] == results[1], reason
    # A release of optax whose updates are other operations has no composite.
    state, since = adam().init(ones), left_alone()
    monkeypatch.setattr(optax.tree, "bias_correction", lambda average, *_: average)
    expected = bits(jax.jit(adam().update)(ones, state))
    with composites.jax.enabled(ADAM):
        assert bits(jax.jit(adam().update)(ones, state)) == expected
    assert any("optax has other operations" in text for text in reasons(ADAM, since))


def test_numbers_that_are_equal_and_of_other_types() -> None:
    """A number of numpy makes an update in bf16 one in f32."""
    gradient = jnp.ones(3, jnp.bfloat16)

    def types(b1: Any) -> list[Any]:
        update = optax.scale_by_adam(b1=b1)
        state = update.init(gradient)
        return [x.dtype for x in jax.tree.leaves(jax.eval_shape(update.update, gradient, state))]

    numbers = 0.5, np.float64(0.5), np.float32(0.5), 1, 1.0
    expected = [types(number) for number in numbers]
    with composites.jax.enabled(ADAM):
        assert [types(number) for number in numbers] == expected


def test_one_update_is_composites_for_all_parameters_or_for_none() -> None:
    """No composite is left behind for the first of two parameters, of which the second has none."""
    transformation, since = optax.scale_by_adam(), left_alone()
    gradients = [jnp.ones(3), jnp.asarray(1.0)]
    state = transformation.init(gradients)
    with composites.jax.enabled(ADAM):
        traced = jax.make_jaxpr(lambda x: transformation.update([x, jnp.asarray(1.0)], state))
        assert "composite_call" not in str(traced(gradients[0]))
        both = [jnp.ones(3)] * 2
        traced = jax.make_jaxpr(transformation.update)
        assert "composite_call" in str(traced(both, transformation.init(both)))
    assert any("type of a number" in text for text in reasons(ADAM, since))


def test_a_state_of_the_program() -> None:
    """optax reads one field of the program's own state."""

    @jax.tree_util.register_dataclass
    @dataclass
    class Own:
        trace: Any

    transformation, state = optax.trace(0.9), Own(jnp.ones(3))
    expected = transformation.update(jnp.ones(3), state)
    with composites.jax.enabled("momentum_trace"):
        actual = transformation.update(jnp.ones(3), state)
    np.testing.assert_array_equal(actual[0], expected[0])


def _as_in_another_release() -> Any:
    def update_of_adam() -> None:
        """The update of Adam under another name."""

    return update_of_adam


@pytest.mark.slow
def test_release_of_optax_without_the_function(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing stops, as in PyTorch programs. A vendor, in test_vendors.py, can mend an entry."""
    monkeypatch.setattr(optax, "scale_by_adam", _as_in_another_release)
    problem = (
        "ptxla.scale_by_adam does not catch optax:scale_by_adam.<locals>.update_fn in this release"
        " of optax: _as_in_another_release defines no function update_fn; did you mean"
        " 'update_of_adam'?; turn the entry off with -scale_by_adam to silence this warning"
    )
    for names in (("all",), ("ptxla.*",), ("gelu", "scale_by_adam")):
        caplog.clear()
        with composites.jax.enabled(*names):
            lowered = jax.jit(jax.nn.gelu).lower(jnp.ones(2))
            assert composite_names(lowered.as_text()) == ["ptxla.gelu"]
        assert caplog.messages == [problem]
    caplog.clear()
    with composites.jax.enabled("all", "-scale_by_adam"):
        assert "ptxla.gelu" in composites.jax.active()
    assert not caplog.messages
    # Neither does a function in a form that cannot be caught.
    monkeypatch.setattr(optax, "scale_by_adam", sorted)
    with composites.jax.enabled("all"):
        assert "ptxla.gelu" in composites.jax.active()
    (message,) = caplog.messages
    assert "cannot be caught: it is not a plain function" in message
