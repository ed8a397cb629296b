"""Updates of optax as composites. The functions that make them are local to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from composites_testing.jax_calls import composite_names
from composites_testing.processes import run_python
from composites_testing.selection import exhaustive

import composites.jax
from composites.errors import UnusableFunctionError
from lowering.jax_entries.replacing import Replaced, find_replaceable
from lowering.stablehlo.run import enable_x64

SHAPES = ((2, 3), (5,), ())


def _parameters(dtype: Any = jnp.float32) -> dict[str, Any]:
    keys = jax.random.split(jax.random.key(0), len(SHAPES))
    return {
        str(n): jax.random.normal(key, shape, dtype)
        for n, (key, shape) in enumerate(zip(keys, SHAPES, strict=True))
    }


class Training:
    """Some steps of an optimizer, whose gradients change."""

    def __init__(self, optimizer: Any, parameters: Any) -> None:
        self.optimizer, self.parameters = optimizer, parameters
        self.step = jax.jit(self._step)

    def _step(self, parameters: Any, state: Any) -> Any:
        gradients = jax.tree.map(lambda p: (jnp.sin(p) * 3).astype(p.dtype), parameters)
        updates, state = self.optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    def run(self) -> list[bytes]:
        values = self.parameters, self.optimizer.init(self.parameters)
        for _ in range(3):
            values = self.step(*values)
        return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(values)]

    def composites(self) -> Counter[str]:
        state = self.optimizer.init(self.parameters)
        return Counter(composite_names(self.step.lower(self.parameters, state).as_text()))


def _left_alone(reason: str) -> int:
    """How many updates were left alone for a reason."""
    found = composites.jax.stats().entries.get("ptxla.scale_by_adam")
    fallbacks = () if found is None else found.fallbacks
    return sum(f.calls for f in fallbacks if reason in f.reason)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: optax.adam(1e-2, eps_root=1e-6),
    "adamw": lambda: optax.adamw(optax.cosine_decay_schedule(1e-2, 10), b1=0.8, weight_decay=0.1),
    "nadam": lambda: optax.nadam(1e-2),
    "nadamw": lambda: optax.nadamw(1e-2),
    "lamb": lambda: optax.lamb(1e-2),
    "clipped": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2)),
    "masked": lambda: optax.masked(optax.adam(1e-2), {"0": True, "1": False, "2": True}),
    "accumulated": lambda: optax.MultiSteps(optax.adam(1e-2), 2),
    "integer": lambda: optax.adam(1e-2, b1=0),
}


@pytest.mark.names
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [jnp.float32, *exhaustive(jnp.bfloat16)], ids=["f32", "bf16"])
def test_bits_of_optimizers(name: str, dtype: Any) -> None:
    training = Training(OPTIMIZERS[name](), _parameters(dtype))
    before = training.run()
    with composites.jax.enabled("scale_by_adam"):
        # The optimizer is older than the block. A new one is caught too.
        for one in (training, Training(OPTIMIZERS[name](), _parameters(dtype))):
            assert one.run() == before
            assert one.composites() == {"ptxla.scale_by_adam": 2 if name == "masked" else 3}
    assert training.run() == before
    assert not training.composites()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=["f32", "f64"])
def test_types_of_64_bits(dtype: Any) -> None:
    """JAX computes the divisors in f64 then."""
    with enable_x64():
        training = Training(optax.nadamw(1e-2), _parameters(dtype))
        before = training.run()
        with composites.jax.enabled("scale_by_adam"):
            assert training.run() == before
            assert training.composites() == {"ptxla.scale_by_adam": 3}


@pytest.mark.parametrize("shape", [(), (5,), (64, 33)], ids=str)
def test_one_parameter(shape: tuple[int, ...]) -> None:
    """XLA multiplies with the reciprocal of a divisor with one use, with and without composites."""
    training = Training(optax.adamw(1e-2), jax.random.normal(jax.random.key(3), shape))
    before = training.run()
    with composites.jax.enabled("scale_by_adam"):
        assert training.run() == before


def test_optimizer_made_while_the_entry_is_on() -> None:
    with composites.jax.enabled("scale_by_adam"):
        training = Training(optax.adamw(1e-2), _parameters())
        inside, found = training.run(), training.composites()
    assert found == {"ptxla.scale_by_adam": 3}
    assert training.run() == inside
    assert not training.composites()


def test_update_without_a_jit_and_without_parameters() -> None:
    """Averages have a rounding more without `jax.jit` where XLA fuses the composite."""
    transformation, gradients = optax.scale_by_adam(), _parameters()
    state = transformation.init(gradients)
    expected = transformation.update(gradients, state)
    with composites.jax.enabled("scale_by_adam"):
        found = transformation.update(gradients, state)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_trees_of_every_form() -> None:
    class Pair(tuple[Any, ...]):
        """A node that JAX takes for a leaf if it is not registered."""

    jax.tree_util.register_pytree_node(Pair, lambda p: (tuple(p), None), lambda _, c: Pair(c))
    one = jnp.ones(2)
    for parameters in (one, [one, {"a": (one,)}], Pair((one, one)), {"a": None, "b": one}, {}):
        training = Training(optax.scale_by_adam(), parameters)
        before, leaves = training.run(), len(jax.tree.leaves(parameters))
        with composites.jax.enabled("scale_by_adam"):
            assert training.run() == before
            assert training.composites()["ptxla.scale_by_adam"] == leaves


def test_attributes_and_operands() -> None:
    transformation = optax.scale_by_adam(b1=0.5, b2=0.25, eps=0.125, eps_root=2.0, nesterov=True)
    training = Training(transformation, jnp.ones(3))
    with composites.jax.enabled("scale_by_adam"):
        text = training.step.lower(jnp.ones(3), transformation.init(jnp.ones(3))).as_text()
    (line,) = [line for line in text.splitlines() if "stablehlo.composite" in line]
    assert (
        "{beta1 = 5.000000e-01 : f32, beta2 = 2.500000e-01 : f32, eps = 1.250000e-01 : f32,"
        " eps_root = 2.000000e+00 : f32}"
    ) in line
    assert (
        "(tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>, tensor<f32>) ->"
        " (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)"
    ) in line


@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.parametrize("nesterov", [False, True])
def test_entry_means_what_optax_computes(count: int, nesterov: bool) -> None:
    """The decomposition in PyTorch is the contract that a kernel is written for."""
    transformation = optax.scale_by_adam(0.8, 0.9, 1e-3, 1e-2, nesterov=nesterov)
    keys = jax.random.split(jax.random.key(1), 3)
    grad, mu, nu = (jax.random.uniform(key, (3, 4)) for key in keys)
    before = optax.ScaleByAdamState(jnp.int32(count), mu, nu)
    direction, after = transformation.update(grad, before)
    step = count + 1
    powers = (0.8 ** (step + nesterov), 0.9**step, *([0.8**step] if nesterov else []))
    found = composites.jax.scale_by_adam(
        grad, mu, nu, *(jnp.float32(1 - power) for power in powers),
        beta1=0.8, beta2=0.9, eps=1e-3, eps_root=1e-2,
    )  # fmt: skip
    for a, b in zip(found, (direction, after.mu, after.nu), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6)


def test_gradient_of_an_update() -> None:
    transformation = optax.scale_by_adam()
    state = transformation.init(jnp.ones(3))

    @jax.jit
    @jax.grad
    def gradient(x: Any) -> Any:
        return (transformation.update(x, state)[0] * jnp.arange(3.0)).sum()

    before = gradient(jnp.ones(3) / 3)
    with composites.jax.enabled("scale_by_adam"):
        np.testing.assert_array_equal(gradient(jnp.ones(3) / 3), before)


def test_scan_and_vmap() -> None:
    transformation = optax.scale_by_adam()

    @jax.jit
    def many(grads: Any) -> Any:
        def one(state: Any, grad: Any) -> Any:
            update, state = transformation.update(grad, state)
            return state, update

        return jax.lax.scan(one, transformation.init(grads[0]), grads)

    grads = jax.random.normal(jax.random.key(2), (4, 3, 5))
    before, batched = many(grads), jax.jit(jax.vmap(many, in_axes=1))(grads)
    with composites.jax.enabled("scale_by_adam"):
        assert composite_names(many.lower(grads).as_text()) == ["ptxla.scale_by_adam"]
        of_many = jax.jit(jax.vmap(many, in_axes=1)).lower(grads)
        assert composite_names(of_many.as_text()) == ["ptxla.scale_by_adam"]
        for found, expected in (
            (many(grads), before),
            (jax.jit(jax.vmap(many, in_axes=1))(grads), batched),
        ):
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("shape", [(4,), (4, 3)], ids=str)
def test_divisors_of_each_model(shape: tuple[int, ...], nesterov: bool) -> None:
    """With one state for each model, divisors are no numbers, which the composite has."""
    transformation = optax.scale_by_adam(nesterov=nesterov)
    grads = jax.random.normal(jax.random.key(2), shape)
    state = jax.vmap(transformation.init)(grads)
    own = jax.jit(jax.vmap(transformation.update))
    before = own(grads, state)
    # With one count for all, they are.
    axes = optax.ScaleByAdamState(None, 0, 0)
    of_all = jax.jit(jax.vmap(transformation.update, in_axes=(0, axes), out_axes=(0, axes)))
    shared = state._replace(count=state.count[0])
    with composites.jax.enabled("scale_by_adam"):
        for a, b in zip(jax.tree.leaves(own(grads, state)), jax.tree.leaves(before), strict=True):
            np.testing.assert_array_equal(a, b)
        assert not composite_names(own.lower(grads, state).as_text())
        text = of_all.lower(grads, shared).as_text()
    (line,) = [line for line in text.splitlines() if "stablehlo.composite" in line]
    array = "x".join(map(str, shape))
    operands = [f"tensor<{array}xf32>"] * 3 + ["tensor<f32>"] * (2 + nesterov)
    assert f": ({', '.join(operands)}) -> " in line


def test_numbers_that_change_are_left_alone() -> None:
    optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=1e-2, b1=0.8)
    training = Training(optimizer, _parameters())
    before, counted = training.run(), _left_alone("b1 is no number of Python")
    with composites.jax.enabled("scale_by_adam"):
        assert training.run() == before
        assert not training.composites()
    assert _left_alone("b1 is no number of Python") == counted + 1


def test_averages_of_another_type() -> None:
    """They keep their type, as `mu_dtype` asks for."""
    training = Training(optax.adam(1e-2, mu_dtype=jnp.bfloat16), _parameters())
    before = training.run()
    with composites.jax.enabled("scale_by_adam"):
        assert training.run() == before
        assert training.composites() == {"ptxla.scale_by_adam": 3}


def test_gradients_of_another_type_than_averages() -> None:
    """The averages become those of optax, f32. The entry's would keep their type."""
    reason = "optax has other operations"
    transformation, counted = optax.scale_by_adam(), _left_alone(reason)
    state = transformation.init(jnp.ones(3, jnp.bfloat16))
    expected = transformation.update(jnp.ones(3), state)
    with composites.jax.enabled("scale_by_adam"):
        found = transformation.update(jnp.ones(3), state)
    assert [x.dtype for x in jax.tree.leaves(found)] == [x.dtype for x in jax.tree.leaves(expected)]
    assert _left_alone(reason) == counted + 1


def test_numbers_that_are_equal_and_of_other_types() -> None:
    """A number of numpy makes an update in bf16 one in f32."""
    gradient = jnp.ones(3, jnp.bfloat16)

    def types(b1: Any) -> list[Any]:
        update = optax.scale_by_adam(b1=b1)
        return [x.dtype for x in jax.tree.leaves(update.update(gradient, update.init(gradient)))]

    numbers = 0.5, np.float64(0.5), np.float32(0.5), 1, 1.0
    expected = [types(number) for number in numbers]
    with composites.jax.enabled("scale_by_adam"):
        assert [types(number) for number in numbers] == expected


def test_one_update_is_composites_for_all_parameters_or_for_none() -> None:
    """No composite is left behind for the first of two parameters, of which the second has none."""
    reason = "type of a number"
    transformation, counted = optax.scale_by_adam(), _left_alone(reason)
    gradients = [jnp.ones(3), jnp.asarray(1.0)]
    state = transformation.init(gradients)
    with composites.jax.enabled("scale_by_adam"):
        traced = jax.make_jaxpr(lambda x: transformation.update([x, jnp.asarray(1.0)], state))
        assert "composite_call" not in str(traced(gradients[0]))
        both = [jnp.ones(3)] * 2
        traced = jax.make_jaxpr(transformation.update)
        assert "composite_call" in str(traced(both, transformation.init(both)))
    assert _left_alone(reason) == counted + 1


@pytest.mark.parametrize(
    ("gradient", "reason"),
    [
        (jnp.ones(2, jnp.complex64), "no array of floats"),
        (1.0, "no array of floats"),
        (jnp.ones((3, 1)), "different shapes"),
        ([jnp.ones(2)], "different trees"),
    ],
    ids=["complex", "number", "shapes", "trees"],
)
def test_what_the_entry_does_not_have(gradient: Any, reason: str) -> None:
    transformation = optax.scale_by_adam()
    like = jnp.ones(2, gradient.dtype) if hasattr(gradient, "dtype") else jnp.ones(2)
    counted = _left_alone(reason)
    with composites.jax.enabled("scale_by_adam"):
        try:
            transformation.update(gradient, transformation.init(like))
        except ValueError:  # of optax, for trees
            assert reason == "different trees"
    assert _left_alone(reason) == counted + 1


OTHERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "lion": ("scale_by_lion", lambda: optax.lion(1e-2, b1=0.8, weight_decay=0.1)),
    "lion, other averages": ("scale_by_lion", lambda: optax.lion(1e-2, mu_dtype=jnp.bfloat16)),
    "sgd": ("momentum_trace", lambda: optax.sgd(1e-2, momentum=0.9)),
    "nesterov": ("momentum_trace", lambda: optax.sgd(1e-2, momentum=0.9, nesterov=True)),
    "rmsprop": ("momentum_trace", lambda: optax.rmsprop(1e-2, momentum=0.9)),
    "sums of another type": (
        "momentum_trace", lambda: optax.sgd(1e-2, 0.9, accumulator_dtype=jnp.bfloat16),
    ),
    "integer": ("momentum_trace", lambda: optax.sgd(1e-2, momentum=1)),
}  # fmt: skip


@pytest.mark.names
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("dtype", [jnp.float32, *exhaustive(jnp.bfloat16)], ids=["f32", "bf16"])
def test_bits_of_other_optimizers(name: str, dtype: Any) -> None:
    entry, made = OTHERS[name]
    training = Training(made(), _parameters(dtype))
    before = training.run()
    with composites.jax.enabled(entry):
        for one in (training, Training(made(), _parameters(dtype))):
            assert one.run() == before
            assert one.composites() == {f"ptxla.{entry}": 3}
    assert training.run() == before
    assert not training.composites()


def test_a_state_of_the_program() -> None:
    """optax reads one field of it."""

    @jax.tree_util.register_dataclass
    @dataclass
    class Own:
        trace: Any

    transformation, state = optax.trace(0.9), Own(jnp.ones(3))
    expected = transformation.update(jnp.ones(3), state)
    with composites.jax.enabled("momentum_trace"):
        found = transformation.update(jnp.ones(3), state)
    np.testing.assert_array_equal(found[0], expected[0])


def test_sgd_without_momentum_has_no_composite() -> None:
    training = Training(optax.sgd(1e-2), _parameters())
    before = training.run()
    with composites.jax.enabled("momentum_trace"):
        assert training.run() == before
        assert not training.composites()


@pytest.mark.parametrize("mode", ["smooth", "refined"])
def test_lion_whose_direction_is_no_sign(mode: str) -> None:
    training = Training(optax.scale_by_lion(mode=mode), _parameters())
    before = training.run()
    with composites.jax.enabled("scale_by_lion"):
        assert training.run() == before
        assert not training.composites()


def test_other_entries_mean_what_optax_computes() -> None:
    grad, state = (jax.random.normal(jax.random.key(n), (3, 4)) for n in range(2))
    lion = optax.scale_by_lion(0.8, 0.9)
    direction, after = lion.update(grad, optax.ScaleByLionState(jnp.int32(1), state))
    found = composites.jax.scale_by_lion(grad, state, beta1=0.8, beta2=0.9)
    for a, b in zip(found, (direction, after.mu), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    for nesterov in (False, True):
        momentum = optax.trace(0.8, nesterov)
        direction, sums = momentum.update(grad, optax.TraceState(state))
        found = composites.jax.momentum_trace(grad, state, decay=0.8, nesterov=nesterov)
        for a, b in zip(found, (direction, sums.trace), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def _as_in_another_release() -> Any:
    def update_of_adam() -> None:
        """Under another name."""

    return update_of_adam


def test_release_of_optax_without_the_function(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing stops, as in PyTorch programs. `acme.moved` below is of a vendor, who can mend it."""
    monkeypatch.setattr(optax, "scale_by_adam", _as_in_another_release)
    problem = (
        "ptxla.scale_by_adam does not catch optax:scale_by_adam.<locals>.update_fn in this release"
        " of optax: _as_in_another_release makes no function update_fn; did you mean"
        " 'update_of_adam'?; turn the entry off with -scale_by_adam to be rid of this warning"
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


ACME = """
schema: 1
namespace: acme
composites:
  moved:
    op: aten::gelu
    version: 1
    attributes: {approximate: approximate}
    decomposition: native
    jax: {"jax.nn:gellu": "composites.jax_functions.activations:gelu"}
  no_function:
    op: aten::gelu
    version: 1
    attributes: {approximate: approximate}
    decomposition: native
    jax: {"jax.numpy:add": "composites.jax_functions.activations:gelu"}
"""
VENDOR = """
import composites.jax
from composites.errors import AllowlistError
others = "all", "-acme.no_function"
for names in (others, ["acme.moved"], ["acme.no_function"], ["all", "-acme.*"]):
    try:
        composites.jax.enable("silu")
        composites.jax.enable(*names)
        print("ptxla.gelu" in composites.jax.active())
    except AllowlistError as error:
        print(composites.jax.active(), error)
    composites.jax.disable()
"""


def test_functions_that_an_entry_of_a_vendor_does_not_find(tmp_path: Path) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(ACME)
    finished = run_python(VENDOR, XLA_COMPOSITE_REGISTRY=str(file))
    moved = ("moved", 5, "jax.nn has no gellu; did you mean 'gelu'?")
    no_function = (
        "no_function",
        11,
        "jax.numpy:add cannot be caught: it is not a plain function, or has variables of an"
        " enclosing one",
    )
    assert finished.stdout.splitlines() == [
        *(
            f"('ptxla.silu',) acme.{name} ({file}:{line}): jax: {problem}; correct it, or turn the"
            f" entry off with -{name}"
            for name, line, problem in (moved, moved, no_function)
        ),
        "True",
    ], finished.stderr


def test_optax_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release whose updates are other operations has no composite that says what they are not."""
    transformation, gradients = optax.scale_by_adam(), jnp.ones(3)
    state = transformation.init(gradients)
    monkeypatch.setattr(optax.tree, "bias_correction", lambda average, *_: average)
    expected = jax.jit(transformation.update)(gradients, state)
    reason = "optax has other operations"
    counted = _left_alone(reason)
    with composites.jax.enabled("scale_by_adam"):
        found = jax.jit(transformation.update)(gradients, state)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    assert _left_alone(reason) == counted + 1


# ---- replacing ----


def _maker(variable: Any, *, other: Any = 2) -> Any:
    def made(first: Any, /, second: Any, *rest: Any, third: Any = 3, **further: Any) -> Any:
        return variable, other, first, second, rest, third, further

    def plain() -> str:
        return "plain"

    return made, plain


@pytest.fixture
def replaced() -> Iterator[Callable[..., Replaced]]:
    done: list[Replaced] = []

    def replace(name: str, handler: Any) -> Replaced:
        done.append(find_replaceable(f"{__name__}:_maker.<locals>.{name}").replace(handler))
        return done[-1]

    yield replace
    for one in reversed(done):
        one.restore()


def test_parameters_and_variables_of_a_local_function(
    replaced: Callable[..., Replaced],
) -> None:
    seen = []

    def handler(original: Any, arguments: Any, keywords: Any) -> Any:
        seen.append((arguments, keywords))
        return original(*arguments, **keywords)

    before, plain = _maker("before")
    code = before.__code__
    whole = replaced("made", handler)
    after, _ = _maker("after", other=5)
    assert before(1, 2) == ("before", 2, 1, 2, (), 3, {})
    assert after(1, 2, 7, third=4, x=8) == ("after", 5, 1, 2, (7,), 4, {"x": 8})
    assert seen == [((1, 2), {"third": 3}), ((1, 2, 7), {"third": 4, "x": 8})]
    assert plain() == "plain"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'second'"):
        before(1)
    whole.restore()
    assert before.__code__ is after.__code__ is code
    assert _maker(0)[0].__code__ is code
    assert len(seen) == 2


def test_two_handlers_of_one_maker(replaced: Callable[..., Replaced]) -> None:
    made, plain = _maker(1)
    first = replaced("made", lambda *_: "first")
    second = replaced("plain", lambda *_: "second")
    assert (made(1, 2), plain()) == ("first", "second")
    second.restore()
    assert (made(1, 2), plain()) == ("first", "plain")
    first.restore()
    assert made(1, 2)[0] == 1
    assert isinstance(_maker, FunctionType)


def test_misspelled_local_function() -> None:
    with pytest.raises(UnusableFunctionError, match=r"_maker makes no function mad.*mean 'made'"):
        find_replaceable(f"{__name__}:_maker.<locals>.mad")


def _maker_of_two(variable: int) -> Any:
    if variable:

        def twice() -> int:
            return variable
    else:

        def twice() -> int:
            return 0

    return twice


def test_two_local_functions_of_a_name() -> None:
    with pytest.raises(UnusableFunctionError, match="_maker_of_two makes several functions twice"):
        find_replaceable(f"{__name__}:_maker_of_two.<locals>.twice")


def _maker_with_variables_of_its_own(variable: int) -> Any:
    def own() -> int:
        count = variable

        def increase() -> None:
            nonlocal count
            count += 1

        increase()
        return count

    return own


def test_a_local_function_with_variables_of_its_own() -> None:
    """Only assignments to those of the function that makes it are lost."""
    found = find_replaceable(f"{__name__}:_maker_with_variables_of_its_own.<locals>.own")
    one = found.replace(lambda original, arguments, keywords: original() + 10)
    try:
        assert _maker_with_variables_of_its_own(1)() == 12
    finally:
        one.restore()


def _maker_of_others(variable: int) -> Any:
    class Klass:
        value = variable

    def generator() -> Iterator[int]:
        yield variable

    async def coroutine() -> int:
        return variable

    def counter() -> None:
        nonlocal variable
        variable += 1

    def inner() -> Any:
        def count() -> None:
            nonlocal variable
            variable += 1

        return count

    return Klass, generator, coroutine, counter, inner


@pytest.mark.parametrize("name", ["Klass", "generator", "coroutine", "counter", "inner"])
def test_what_cannot_be_caught(name: str) -> None:
    with pytest.raises(UnusableFunctionError, match="cannot be caught: it is not a plain function"):
        find_replaceable(f"{__name__}:_maker_of_others.<locals>.{name}")
