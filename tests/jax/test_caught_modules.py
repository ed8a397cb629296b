"""Modules of flax that programs change: by subclasses, interceptors, other variables, and numbers
that are traced. Results are those without composites, and so are errors."""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing import caught
from composites_testing.jax_calls import composite_names
from composites_testing.selection import variants
from flax import nnx

import composites.jax

IMAGE = caught.normal(0, 2, 5, 3, 8)
INDICES = jnp.asarray([[1, 2, 9], [0, 3, 3]], jnp.int32)
KEY = jax.random.key(1)


@dataclass(frozen=True)
class Norm:
    """A norm of flax, which both of its interfaces have by this name."""

    name: str
    entry: str
    options: dict[str, Any]


LAYER, RMS, GROUP, INSTANCE, INFERENCE, TRAINING = NORMS = (
    Norm("LayerNorm", "layer_norm", {}),
    Norm("RMSNorm", "rms_norm", {}),
    Norm("GroupNorm", "group_norm", {"num_groups": 4}),
    Norm("InstanceNorm", "instance_norm", {}),
    Norm("BatchNorm", "batch_norm_inference", {"use_running_average": True}),
    Norm("BatchNorm", "batch_norm_training", {"use_running_average": False}),
)
ENTRIES = (*(norm.entry for norm in NORMS), "embedding")


def _linen(norm: Norm, base: Any = None, **options: Any) -> tuple[caught.Function, Any]:
    """A function of variables and an input, and the variables."""
    run, variables = caught.linen_function(getattr(nn, norm.name)(**norm.options), IMAGE, **options)
    if base is not None:
        changed = base(**norm.options, **options)
        run = lambda v, x: changed.apply(v, x, mutable=caught.RESULTS)  # noqa: E731
    return run, variables


def _nnx(
    norm: Norm, base: Any = None, change: Callable[[Any], None] = lambda module: None
) -> tuple[caught.Function, Any]:
    """The same of flax.nnx. `change` is for the module."""
    module = (base or getattr(nnx, norm.name))(8, **norm.options, rngs=nnx.Rngs(0))
    change(module)
    return caught.nnx_function(module)


def _caught(programs: dict[str, caught.Call]) -> Counter[str]:
    return Counter(composite_names(caught.all_with_and_without(programs, *ENTRIES)))


def _more(base: Any) -> Any:
    """A class that adds to what the norm computes."""

    class More(base):
        def __call__(self, x: Any) -> Any:
            return 2 * super().__call__(x) + x

    return More


@pytest.mark.slow
def test_a_subclass_adds_to_a_norm() -> None:
    programs: dict[str, caught.Call] = {}
    for norm in NORMS:
        for interface, make in ((nn, _linen), (nnx, _nnx)):
            if hasattr(interface, norm.name):
                run, variables = make(norm, _more(getattr(interface, norm.name)))
                programs[f"{norm.entry} of {interface.__name__}"] = run, (variables, IMAGE)
    assert _caught(programs) == {
        f"ptxla.{norm.entry}": sum(name.startswith(norm.entry) for name in programs)
        for norm in NORMS
    }


@variants("norm", [LAYER, TRAINING], ids=lambda norm: norm.entry)
def test_interceptors_run_once(norm: Norm) -> None:
    program, variables = _linen(norm)
    called: list[str] = []

    def doubled(run: Any, arguments: Any, keywords: Any, context: Any) -> Any:
        called.append(context.method_name)
        return 2 * run(*arguments, **keywords) if context.method_name == "__call__" else None

    def intercepted(variables: Any, x: Any) -> Any:
        with nn.intercept_methods(doubled):
            return program(variables, x)

    text = caught.with_and_without(intercepted, ENTRIES, variables, IMAGE)
    assert composite_names(text) == [f"ptxla.{norm.entry}"]
    called.clear()
    with composites.jax.enabled(*ENTRIES):
        jax.eval_shape(intercepted, variables, IMAGE)
    assert called == ["__call__"]


# ---- numbers ----


@pytest.mark.slow
def test_numbers_that_are_not_those_of_python_are_left_alone() -> None:
    programs: dict[str, tuple[str, caught.Call, str]] = {}
    for norm in NORMS:
        variables = _linen(norm)[1]

        def traced(variables: Any, x: Any, epsilon: Any, norm: Norm = norm) -> Any:
            return _linen(norm, epsilon=epsilon)[0](variables, x)

        reason = "epsilon is an array"
        call: caught.Call = (traced, (variables, IMAGE, jnp.float32(0.1)))
        programs[f"{norm.entry}, traced"] = norm.entry, call, reason
        for epsilon in (np.full((1,), 1e-3), np.float32(0.1)):
            call = (partial(traced, epsilon=epsilon), (variables, IMAGE))
            programs[f"{norm.entry}, {epsilon!r}"] = norm.entry, call, reason

    def scheduled(variables: Any, x: Any, step: Any) -> Any:
        return _linen(TRAINING, momentum=1 - 1 / (step + 1))[0](variables, x)

    call = (scheduled, (_linen(TRAINING)[1], IMAGE, jnp.float32(10)))
    programs["momentum"] = TRAINING.entry, call, "momentum is an array"
    # flax takes the statistics of everything.
    run, variables = _linen(TRAINING, axis=-5)
    reason = "not a dimension of the input"
    programs["an axis"] = TRAINING.entry, (run, (variables, IMAGE)), reason
    caught.assert_left_alone(programs)


# ---- arrays ----


@pytest.mark.slow
def test_averages_in_other_variables_change() -> None:
    class Hooked(nnx.Variable):
        """Reads and writes other values than it holds."""

        def get_value(self, **keywords: Any) -> Any:
            return super().get_value(**keywords) + 1

        def set_value(self, value: Any, **keywords: Any) -> None:
            super().set_value(value * 2, **keywords)

    programs: dict[str, caught.Call] = {}
    for kind in (nnx.Variable, nnx.Param, Hooked):

        def change(module: Any, kind: Any = kind) -> None:
            module.mean, module.var = kind(jnp.zeros(8)), kind(jnp.ones(8))

        run, state = _nnx(TRAINING, change=change)
        programs[kind.__name__] = run, (state, IMAGE)
    assert _caught(programs) == {"ptxla.batch_norm_training": 3}


@pytest.mark.slow
def test_operands_are_what_the_module_reads() -> None:
    def change(module: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # flax advises against such hooks
            module.scale = nnx.Param(jnp.ones(8), on_get_value=lambda variable, value: value + 1)

    program, state = _nnx(LAYER, change=change)
    text = caught.with_and_without(program, ENTRIES, state, IMAGE)
    assert composite_names(text) == ["ptxla.layer_norm"]
    bias, scale = jax.tree.leaves(state)
    expected = composites.jax.layer_norm(IMAGE, [8], scale + 1, bias, 1e-6)[0]
    actual = jax.jit(program)(state, IMAGE)[0]
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_further_parameters_are_no_operands() -> None:
    def change(module: Any) -> None:
        module.gate = nnx.Param(jnp.ones(3))

    program, state = _nnx(TRAINING, change=change)
    (line,) = caught.calls_in(caught.with_and_without(program, ENTRIES, state, IMAGE))
    assert line.count("tensor<8xf32>") == 6  # four operands and two results
    assert "tensor<3xf32>" not in line


@pytest.mark.slow
def test_parameters_that_a_module_does_not_use_are_no_operands() -> None:
    for norm in (LAYER, GROUP, INSTANCE):
        program, variables = _linen(norm, use_bias=False)
        assert "bias" in variables["params"]
        with composites.jax.enabled(*ENTRIES):
            text = jax.jit(program).lower(variables, IMAGE).as_text()
        (line,) = caught.calls_in(text)
        assert line.count("tensor<8xf32>") == 1
    programs: dict[str, caught.Call] = {}
    for options in ({"use_bias": False}, {"use_bias": False, "use_scale": False}):
        run, variables = _linen(TRAINING, **options)
        programs[str(options)] = run, (variables, IMAGE)
    assert _caught(programs) == {"ptxla.batch_norm_training": 2}


@pytest.mark.slow
def test_other_modules_are_left_alone() -> None:
    class Shifted(nn.RMSNorm):
        def param(self, *arguments: Any, **keywords: Any) -> Any:
            return super().param(*arguments, **keywords) + 1

    def one_variable(module: Any) -> None:
        module.var = module.mean

    def with_function(module: Any) -> None:
        module.promote_dtype = lambda args, dtype: tuple(x if x is None else 2 * x for x in args)

    made = (
        (TRAINING, _nnx(TRAINING, change=one_variable), "two of its parameters are one variable"),
        (TRAINING, _nnx(TRAINING, change=with_function), "passes a function for types"),
        (LAYER, _nnx(LAYER, change=with_function), "passes a function for types"),
        (RMS, _linen(RMS, Shifted), "overrides `param`"),
    )
    caught.assert_left_alone(
        {
            f"{norm.entry}: {reason}": (norm.entry, (run, (variables, IMAGE)), reason)
            for norm, (run, variables), reason in made
        }
    )


# ---- calls that flax refuses ----


@pytest.mark.slow
def test_errors_are_those_of_flax() -> None:
    def applied(module: Any, *arguments: Any, like: Any = None, **keywords: Any) -> caught.Function:
        x = INDICES if isinstance(module, nn.Embed) else IMAGE
        return partial(module.apply, (like or module).init(KEY, x), *arguments, **keywords)

    training = nn.BatchNorm(use_running_average=False)
    calls: dict[str, caught.Function] = {
        "a mask by position": applied(nn.RMSNorm(), IMAGE, None),
        "a sharding of an embedding": applied(nn.Embed(10, 4), INDICES, None),
        "indices of floats": applied(nn.Embed(10, 4), jnp.ones(2)),
        "one number to a layer norm": applied(nn.LayerNorm(), jnp.ones(())),
        "one number to an RMS norm": applied(nn.RMSNorm(), jnp.ones(())),
        "an axis that is not an integer": applied(
            training.clone(axis=-1.0), IMAGE, like=training, mutable=caught.RESULTS
        ),
        "a scale of another shape": applied(nn.LayerNorm(), IMAGE[..., :4]),
        "groups that do not divide": partial(
            nn.GroupNorm(3, use_bias=False, use_scale=False).apply, {}, IMAGE
        ),
        "an argument that is given twice": applied(training, IMAGE, use_running_average=True),
        "averages that cannot change": applied(training, IMAGE),
        "averages or batch": lambda: nn.BatchNorm().apply({}, IMAGE),
        "averages or batch of nnx": lambda: nnx.BatchNorm(
            8, use_running_average=None, rngs=nnx.Rngs(0)
        )(IMAGE),
    }
    caught.assert_same_errors(calls, *ENTRIES)


# ---- sums of what a composite returns ----


@pytest.mark.slow
def test_the_order_of_sums_is_that_without() -> None:
    """XLA adds up an array in its order in memory, where channels in front must leave no trace."""
    x = caught.normal(2, 8, 8, 8, 64)
    for norm in NORMS:
        options = {**norm.options, **({"num_groups": 32} if norm is GROUP else {})}
        module = getattr(nn, norm.name)(**options)

        def summed(variables: Any, x: Any, module: Any = module) -> Any:
            return jnp.sin(module.apply(variables, x, mutable=caught.RESULTS)[0]).sum()

        text = caught.with_and_without(summed, (norm.entry,), module.init(KEY, x), x)
        assert composite_names(text) == [f"ptxla.{norm.entry}"]
