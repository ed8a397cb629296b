"""Modules of flax that programs change: by subclasses, interceptors, other variables, and numbers
that are traced. Results are those without composites, and so are errors."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.jax_calls import bits, composite_names
from composites_testing.selection import exhaustive
from flax import nnx

import composites.jax

ENTRIES = (
    "layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm_inference",
    "batch_norm_training", "embedding",
)  # fmt: skip
IMAGE = jax.random.normal(jax.random.key(0), (2, 5, 3, 8))
INDICES = jnp.array([[1, 2, 9], [0, 3, 3]])
KEY = jax.random.key(1)
RESULTS = ["batch_stats"]
"""The collection that batch norms of flax.linen change."""


@dataclass(frozen=True)
class Norm:
    """A norm of flax, which both of its interfaces have by this name."""

    name: str
    entry: str
    options: dict[str, Any]


NORMS = (
    Norm("LayerNorm", "layer_norm", {}),
    Norm("RMSNorm", "rms_norm", {}),
    Norm("GroupNorm", "group_norm", {"num_groups": 4}),
    Norm("InstanceNorm", "instance_norm", {}),
    Norm("BatchNorm", "batch_norm_inference", {"use_running_average": True}),
    Norm("BatchNorm", "batch_norm_training", {"use_running_average": False}),
)
EACH_NORM = pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.entry)


@pytest.fixture(autouse=True)
def _all_off() -> Iterator[None]:
    yield
    composites.jax.disable()


def _other(variables: Any) -> Any:
    """Variables that are not ones and zeros."""
    return jax.tree.map(lambda v: v + jnp.linspace(0, 1, v.size, dtype=v.dtype), variables)


def _linen(norm: Norm, base: Any = None, **options: Any) -> tuple[Callable[..., Any], Any]:
    """A function of variables and an input, and the variables."""
    made = {**norm.options, **options}
    variables = _other(getattr(nn, norm.name)(**norm.options).init(KEY, IMAGE))
    kind = base or getattr(nn, norm.name)
    return (lambda v, x: kind(**made).apply(v, x, mutable=RESULTS)), variables


def _nnx(
    norm: Norm, base: Any = None, change: Callable[[Any], None] = lambda module: None
) -> tuple[Callable[..., Any], Any]:
    """The same of flax.nnx. `change` is for the module."""
    module = (base or getattr(nnx, norm.name))(8, **norm.options, rngs=nnx.Rngs(0))
    change(module)
    graph, state = nnx.split(module)

    def run(state: Any, x: Any) -> Any:
        module = nnx.merge(graph, jax.tree.map(lambda leaf: leaf, state))  # of its own variables
        return module(x), nnx.state(module)

    return run, _other(state)


def _with_and_without(program: Callable[..., Any], *arguments: Any) -> Counter[str]:
    """The composites of a program. Its results are those without, also outside of `jax.jit`."""
    compiled = jax.jit(program)
    expected, eager = bits(compiled(*arguments)), bits(program(*arguments))
    with composites.jax.enabled(*ENTRIES):
        assert bits(compiled(*arguments)) == expected
        assert bits(program(*arguments)) == eager
        return Counter(composite_names(compiled.lower(*arguments).as_text()))


def _reasons(entry: str) -> list[str]:
    return [f.reason for f in composites.jax.stats().entries[f"ptxla.{entry}"].fallbacks]


def _more(base: Any) -> Any:
    """A class that adds to what the norm computes."""

    class More(base):
        def __call__(self, x: Any) -> Any:
            return 2 * super().__call__(x) + x

    return More


@EACH_NORM
def test_a_subclass_adds_to_a_norm(norm: Norm) -> None:
    for make, flax in ((_linen, nn), (_nnx, nnx)):
        program, variables = make(norm, _more(getattr(flax, norm.name)))
        assert _with_and_without(program, variables, IMAGE) == {f"ptxla.{norm.entry}": 1}


@pytest.mark.parametrize("norm", [NORMS[0], NORMS[-1]], ids=lambda norm: norm.entry)
def test_interceptors_run_once(norm: Norm) -> None:
    program, variables = _linen(norm)
    called: list[str] = []

    def doubled(run: Any, arguments: Any, keywords: Any, context: Any) -> Any:
        called.append(context.method_name)
        return 2 * run(*arguments, **keywords) if context.method_name == "__call__" else None

    def intercepted(variables: Any, x: Any) -> Any:
        with nn.intercept_methods(doubled):
            return program(variables, x)

    assert _with_and_without(intercepted, variables, IMAGE) == {f"ptxla.{norm.entry}": 1}
    called.clear()
    with composites.jax.enabled(*ENTRIES):
        intercepted(variables, IMAGE)
    assert called == ["__call__"]


def test_a_method_that_the_program_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    program, variables = _linen(NORMS[0])
    plain = nn.LayerNorm.__call__

    def exchanged(variables: Any, x: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(nn.LayerNorm, "__call__", lambda self, x: 2 * plain(self, x))
            return program(variables, x)

    assert _with_and_without(exchanged, variables, IMAGE) == {"ptxla.layer_norm": 1}


# ---- numbers ----


@EACH_NORM
@pytest.mark.parametrize(
    "epsilon", [jnp.float32(0.1), *exhaustive(np.full((1,), 1e-3), np.float32(0.1))]
)
def test_an_epsilon_that_is_no_number_of_python_is_left_alone(norm: Norm, epsilon: Any) -> None:
    def traced(variables: Any, x: Any, epsilon: Any) -> Any:
        return _linen(norm, epsilon=epsilon)[0](variables, x)

    assert not _with_and_without(traced, _linen(norm)[1], IMAGE, epsilon)
    assert any("epsilon is an array" in reason for reason in _reasons(norm.entry))


def test_a_momentum_by_schedule_is_left_alone() -> None:
    def scheduled(variables: Any, x: Any, step: Any) -> Any:
        return _linen(NORMS[-1], momentum=1 - 1 / (step + 1))[0](variables, x)

    variables = _linen(NORMS[-1])[1]
    assert not _with_and_without(scheduled, variables, IMAGE, jnp.float32(10))
    assert any("momentum is an array" in reason for reason in _reasons("batch_norm_training"))


# ---- arrays ----


class _Hooked(nnx.Variable):
    """Reads and writes other values than it holds."""

    def get_value(self, **keywords: Any) -> Any:
        return super().get_value(**keywords) + 1

    def set_value(self, value: Any, **keywords: Any) -> None:
        super().set_value(value * 2, **keywords)


@pytest.mark.parametrize("kind", [nnx.Variable, nnx.Param, _Hooked])
def test_averages_in_other_variables_change(kind: Any) -> None:
    def change(module: Any) -> None:
        module.mean, module.var = kind(jnp.zeros(8)), kind(jnp.ones(8))

    program, state = _nnx(NORMS[-1], change=change)
    found = _with_and_without(program, state, IMAGE)
    assert found == {"ptxla.batch_norm_training": 1}


def test_operands_are_what_the_module_reads() -> None:
    def change(module: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # flax advises against such hooks
            module.scale = nnx.Param(jnp.ones(8), on_get_value=lambda variable, value: value + 1)

    program, state = _nnx(NORMS[0], change=change)
    assert _with_and_without(program, state, IMAGE) == {"ptxla.layer_norm": 1}
    bias, scale = jax.tree.leaves(state)
    expected = composites.jax.layer_norm(IMAGE, [8], scale + 1, bias, 1e-6)[0]
    np.testing.assert_allclose(program(state, IMAGE)[0], expected, rtol=2e-5, atol=2e-5)


def test_further_parameters_are_no_operands() -> None:
    def change(module: Any) -> None:
        module.gate = nnx.Param(jnp.ones(3))

    program, state = _nnx(NORMS[-1], change=change)
    assert _with_and_without(program, state, IMAGE) == {"ptxla.batch_norm_training": 1}
    with composites.jax.enabled(*ENTRIES):
        text = jax.jit(program).lower(state, IMAGE).as_text()
    (line,) = [line for line in text.splitlines() if "stablehlo.composite" in line]
    assert line.count("tensor<8xf32>") == 6  # four operands and two results
    assert "tensor<3xf32>" not in line


def _one_variable(module: Any) -> None:
    module.var = module.mean


def _with_function(module: Any) -> None:
    module.promote_dtype = lambda arrays, dtype: tuple(a if a is None else 2 * a for a in arrays)


@pytest.mark.parametrize(
    ("norm", "change", "reason"),
    [
        (NORMS[-1], _one_variable, "two of its parameters are one variable"),
        (NORMS[-1], _with_function, "gives a function for types"),
        (NORMS[0], _with_function, "gives a function for types"),
    ],
)
def test_other_modules_are_left_alone(
    norm: Norm, change: Callable[[Any], None], reason: str
) -> None:
    program, state = _nnx(norm, change=change)
    assert not _with_and_without(program, state, IMAGE)
    assert any(reason in found for found in _reasons(norm.entry))


def test_parameters_of_another_kind_are_left_alone() -> None:
    class Shifted(nn.RMSNorm):
        def param(self, *arguments: Any, **keywords: Any) -> Any:
            return super().param(*arguments, **keywords) + 1

    program, variables = _linen(NORMS[1], Shifted)
    assert not _with_and_without(program, variables, IMAGE)
    assert any("of its own kind" in reason for reason in _reasons("rms_norm"))


@pytest.mark.parametrize("norm", [n for n in NORMS if n.name not in ("RMSNorm", "BatchNorm")])
def test_parameters_that_a_module_does_not_use_are_no_operands(norm: Norm) -> None:
    program, variables = _linen(norm, use_bias=False)
    assert "bias" in variables["params"]
    assert _with_and_without(program, variables, IMAGE) == {f"ptxla.{norm.entry}": 1}
    with composites.jax.enabled(*ENTRIES):
        text = jax.jit(program).lower(variables, IMAGE).as_text()
    (line,) = [line for line in text.splitlines() if "stablehlo.composite" in line]
    assert line.count("tensor<8xf32>") == 1


def test_batch_norm_in_training_goes_without_scale_and_bias() -> None:
    for options in ({"use_bias": False}, {"use_bias": False, "use_scale": False}):
        program, variables = _linen(NORMS[-1], **options)
        assert _with_and_without(program, variables, IMAGE) == {"ptxla.batch_norm_training": 1}


# ---- calls that flax refuses ----


ERRORS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "a mask by position": (nn.RMSNorm(), nn.RMSNorm(), (IMAGE, None)),
    "a sharding of an embedding": (nn.Embed(10, 4), nn.Embed(10, 4), (INDICES, None)),
    "one number to a layer norm": (nn.LayerNorm(), nn.LayerNorm(), (jnp.ones(()),)),
    "one number to an RMS norm": (nn.RMSNorm(), nn.RMSNorm(), (jnp.ones(()),)),
    "an axis that is no integer": (
        nn.BatchNorm(False), nn.BatchNorm(False, axis=-1.0), (IMAGE,),  # type: ignore[arg-type]
    ),
    "a scale of another shape": (nn.LayerNorm(), nn.LayerNorm(), (IMAGE[..., :4],)),
}  # fmt: skip
"""A module for the variables, one for the call, and the call's arguments."""


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_flax(name: str) -> None:
    like, module, arguments = ERRORS[name]
    variables = like.init(KEY, INDICES if isinstance(like, nn.Embed) else IMAGE)
    with pytest.raises(Exception, match=r"\w") as expected:
        module.apply(variables, *arguments, mutable=RESULTS)
    with composites.jax.enabled(*ENTRIES), pytest.raises(expected.type) as found:
        module.apply(variables, *arguments, mutable=RESULTS)
    assert str(found.value) == str(expected.value)


def test_an_axis_that_is_no_dimension_is_left_alone() -> None:
    """flax takes the statistics of everything."""
    program, variables = _linen(NORMS[-1], axis=-5)
    assert not _with_and_without(program, variables, IMAGE)
    assert any("no dimension of the input" in reason for reason in _reasons("batch_norm_training"))


def test_calls_that_torch_refuses_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    embed = nn.Embed(10, 4)
    variables = jax.tree.map(lambda v: jnp.stack([v, v + 1]), embed.init(KEY, INDICES))
    with caplog.at_level(logging.DEBUG):
        assert not _with_and_without(jax.vmap(embed.apply), variables, INDICES)
    assert not [record for record in caplog.records if "failed while" in record.getMessage()]


# ---- sums of what a composite returns ----


@pytest.mark.names
@EACH_NORM
def test_the_order_of_sums_is_that_without(norm: Norm) -> None:
    """XLA adds up an array in its order in memory, where channels in front must leave no trace."""
    x = jax.random.normal(jax.random.key(2), (8, 8, 8, 64))
    options = {**norm.options, **({"num_groups": 32} if norm.name == "GroupNorm" else {})}
    module = getattr(nn, norm.name)(**options)
    variables = module.init(KEY, x)

    def summed(variables: Any, x: Any) -> Any:
        return jnp.sin(module.apply(variables, x, mutable=RESULTS)[0]).sum()

    compiled = jax.jit(summed)
    expected = bits(compiled(variables, x))
    with composites.jax.enabled(norm.entry):
        assert bits(compiled(variables, x)) == expected
        assert composite_names(compiled.lower(variables, x).as_text()) == [f"ptxla.{norm.entry}"]
