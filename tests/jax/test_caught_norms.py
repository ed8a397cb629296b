"""Norms and embeddings of flax as entries, most of which have channels in front: the same bits as
without, also of gradients and of the moving averages that batch norms change."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import yaml
from composites_testing.caught import (
    Call,
    Function,
    all_with_and_without,
    assert_left_alone,
    backward,
    by_name,
    calls_in,
    linen_function,
    nnx_function,
    normal,
    weighted,
    with_and_without,
)
from composites_testing.jax_calls import composite_names
from composites_testing.selection import exhaustive, variants
from flax import nnx

import composites.jax

IMAGE = normal(0, 2, 5, 3, 8)
BF16 = jnp.bfloat16
NARROW = jnp.asarray(np.asarray(IMAGE), BF16)
INDICES = jnp.asarray([[1, 2, 9], [0, 3, 3]], jnp.int32)
DATA = yaml.safe_load(Path(__file__).with_name("norms.yaml").read_text(encoding="utf-8"))
INPUTS = {
    "image": IMAGE,
    "narrow": NARROW,
    "channels": IMAGE[:, 0, 0],
    "one_dimension": IMAGE[:, 0],
    "no_images": IMAGE[:0],
    "no_batch": IMAGE[0, 0, 0],
    "indices": INDICES,
    "index": INDICES[0, 0],
    "indices_of_three_dimensions": INDICES[:, None],
    "no_indices": INDICES[:0],
    "out_of_range": jnp.asarray([-1, 10, 2], jnp.int32),
    "bytes": INDICES.astype(jnp.uint8),
    "zeros": jnp.zeros_like(INDICES),
}


def _options(written: dict[str, Any]) -> dict[str, Any]:
    """Types by their names, and tuples instead of lists, which flax does not take."""
    types = {"bf16": BF16, "f32": jnp.float32}
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in written.items()}
    return {n: types[v] if n.endswith("dtype") else v for n, v in values.items()}


@dataclass(frozen=True)
class Norm:
    """A module that both interfaces of flax have by this name."""

    module: str
    cases: dict[str, tuple[Any, dict[str, Any]]]
    """Inputs and options."""
    only_linen: tuple[str, ...] = ()
    """Cases that flax.nnx does not have."""
    backward: str = ""
    """The entry of the gradient, where it is a composite."""
    says: tuple[str, ...] = ()
    """Text of the composites."""


def _norm(cases: dict[str, Any], **fields: Any) -> Norm:
    made = {name: (INPUTS[x], _options(options)) for name, (x, options) in cases.items()}
    return Norm(cases=made, **fields)


NORMS = {entry: _norm(**written) for entry, written in DATA["norms"].items()}
INTERFACES = pytest.mark.parametrize("interface", ["nnx", *exhaustive("linen")])


def _made(
    interface: str, entry: str, x: Any, options: dict[str, Any], **other: Any
) -> tuple[Function, Any]:
    """A function of variables and an input, and the variables."""
    name = NORMS[entry].module
    if entry == "embedding":
        options = {"num_embeddings": 10, "features": 4, **options}
    if interface == "linen":
        return linen_function(getattr(nn, name)(**options), x, **other)
    sizes = () if entry == "embedding" else (x.shape[-1],)
    return nnx_function(getattr(nnx, name)(*sizes, **options, rngs=nnx.Rngs(0)))


def _with_gradients(run: Function, argnums: int | tuple[int, ...] = (0, 1)) -> Function:
    """The weighted sum, the changed averages, and gradients of variables and input."""

    def loss(variables: Any, x: Any) -> Any:
        averages: list[Any] = []

        def result(*arguments: Any) -> Any:
            returned, changed = run(*arguments)
            averages.append(changed)
            return jnp.sin(returned.astype(jnp.float32))

        return weighted(result, variables, x), averages.pop()

    return jax.value_and_grad(loss, argnums, has_aux=True)


@INTERFACES
@variants("entry", NORMS, fast=["embedding"])
def test_bits(entry: str, interface: str) -> None:
    norm = NORMS[entry]
    programs: dict[str, Call] = {}
    gradients: dict[str, Call] = {}
    for name, (x, options) in norm.cases.items():
        if interface == "linen" or name not in norm.only_linen:
            run, variables = _made(interface, entry, x, options)
            programs[name] = run, (variables, x)
            has_gradient = jnp.issubdtype(x.dtype, jnp.floating)
            gradients[name] = _with_gradients(run, (0, 1) if has_gradient else 0), (variables, x)
    text = all_with_and_without(programs, entry)
    expected = {f"ptxla.{entry}": len(programs)}
    assert Counter(composite_names(text)) == expected
    if norm.backward:
        expected |= dict.fromkeys(backward(norm.backward), len(programs))
    assert Counter(composite_names(all_with_and_without(gradients, entry))) == expected
    assert [part for part in norm.says if part not in text] == []


@pytest.mark.slow
@INTERFACES
def test_an_input_with_a_further_use(interface: str) -> None:
    """JAX adds the gradients of a norm's operations to that of the other use, one by one."""
    programs = {}
    for entry in ("group_norm", "batch_norm_training"):
        x, options = next(iter(NORMS[entry].cases.values()))
        run, variables = _made(interface, entry, x, options)

        def residual(variables: Any, x: Any, run: Function = run) -> Any:
            result, averages = run(variables, x)
            return x * jnp.sin(x + result), averages

        programs[entry] = _with_gradients(residual), (variables, x)
    names = composite_names(all_with_and_without(programs, *programs))
    assert {"ptxla.group_norm", "ptxla.batch_norm_training"} <= set(names)
    assert "ptxla.group_norm_backward" not in names


MEANINGS: dict[str, Callable[..., Any]] = {
    "group_norm": lambda x, scale, bias: composites.jax.group_norm(
        x, scale, bias, 2, 8, 15, 4, 1e-6
    )[:1],
    "instance_norm": lambda x, scale, bias: [
        composites.jax.instance_norm(x, scale, bias, eps=1e-6)
    ],
    "batch_norm_inference": lambda x, scale, bias, mean, var: composites.jax.batch_norm_inference(
        x, scale, bias, mean, var, False, 0.01, 1e-5
    )[:1],
    "batch_norm_training": lambda x, scale, bias, mean, var: composites.jax.batch_norm_training(
        x, mean, var, scale, bias, momentum=0.01, eps=1e-5
    ),
}
"""Computations of the norms, for channels in front, with the averages as last results."""


@pytest.mark.slow
@INTERFACES
def test_norms_mean_their_entries(interface: str) -> None:
    for entry, meaning in MEANINGS.items():
        x, options = next(iter(NORMS[entry].cases.values()))
        run, variables = _made(interface, entry, x, options)

        def entry_result(
            variables: Any, x: Any, meaning: Callable[..., Any] = meaning
        ) -> tuple[Any, list[Any]]:
            result, *averages = meaning(jnp.moveaxis(x, -1, 1), **by_name(variables))
            return jnp.moveaxis(result, 1, -1), averages

        def compared(run: Function, variables: Any = variables, x: Any = x) -> Any:
            actual, averages = run(variables, x)
            _, gradient = _with_gradients(run, 1)(variables, x)
            return actual, gradient, averages

        actual, gradient, averages = jax.jit(lambda run=run: compared(run))()
        expected = jax.jit(lambda entry_result=entry_result: compared(entry_result))()
        np.testing.assert_allclose(actual, expected[0], rtol=2e-5, atol=2e-5, err_msg=entry)
        np.testing.assert_allclose(gradient, expected[1], rtol=2e-4, atol=2e-5, err_msg=entry)
        if expected[2]:
            changed = by_name(averages)
            for average, other in zip((changed["mean"], changed["var"]), expected[2], strict=True):
                np.testing.assert_allclose(average, other, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [BF16, jnp.float32], ids=["bf16", "f32"])
def test_moments_are_those_of_the_entry(dtype: Any) -> None:
    """Further results of a forward kernel mean the same as in the entry."""
    from lowering.jax_programs.functions.norms import _WithMoments

    x = (3 * IMAGE + 1).astype(dtype)
    moments = jax.jit(_WithMoments(lambda x: [x], (3,), 1e-6))(x)[1:]
    expected = jax.jit(lambda x: composites.jax.layer_norm(x, [8], None, None, 1e-6)[1:])(x)
    tolerance = 1e-2 if dtype is BF16 else 1e-5
    for moment, other in zip(moments, expected, strict=True):
        assert (moment.dtype, moment.shape) == (other.dtype, other.shape)
        wide = moment.astype(jnp.float32), other.astype(jnp.float32)
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


# ---- what is left alone ----


@pytest.mark.slow
def test_what_is_left_alone() -> None:
    programs = {}
    for case in DATA["left_alone"]:
        entry, interface = case["entry"], case.get("interface", "linen")
        like = INDICES if entry == "embedding" else IMAGE
        x = INPUTS[case["x"]] if "x" in case else like
        options = _options(case.get("options", {}))
        named = {"axis_name": options.pop("axis_name")} if "axis_name" in options else {}
        run, variables = _made(interface, entry, like, options, **named)
        if named:
            run, x = jax.vmap(run, (None, 0), axis_name=named["axis_name"]), x[None]
        programs[f"{case}"] = entry, (run, (variables, x)), case["reason"]
    assert_left_alone(programs)


def test_initializations_and_masks_are_left_alone() -> None:
    module = nn.BatchNorm(use_running_average=False)
    initialized = partial(module.init, jax.random.key(1), IMAGE)
    assert not calls_in(with_and_without(initialized, ("batch_norm_training",)))
    plain, mask = nn.GroupNorm(2, use_bias=False, use_scale=False), jnp.ones(IMAGE.shape, bool)
    masked = partial(plain.apply, {}, mask=mask)
    assert_left_alone({"mask": ("group_norm", (masked, (IMAGE,)), "has a mask")})


@INTERFACES
def test_one_entry_takes_what_the_other_leaves(interface: str) -> None:
    both = ("batch_norm_training", "batch_norm_inference")
    run, variables = _made(interface, both[0], *NORMS[both[0]].cases["f32"])
    with composites.jax.enabled(*both):
        before = composites.jax.stats().entries
        jax.jit(run).lower(variables, IMAGE)
        after = composites.jax.stats().entries
    assert after["ptxla.batch_norm_training"].calls == before["ptxla.batch_norm_training"].calls + 1
    assert after["ptxla.batch_norm_inference"] == before["ptxla.batch_norm_inference"]


def test_a_number_of_numpy_says_that_averages_are_used() -> None:
    variables = nn.BatchNorm(use_running_average=True).init(jax.random.key(1), IMAGE)
    call = partial(nn.BatchNorm().apply, variables, use_running_average=np.bool_(True))
    text = with_and_without(call, ("batch_norm_inference",), IMAGE)
    assert composite_names(text) == ["ptxla.batch_norm_inference"]


# ---- in programs ----


def test_a_transposed_embedding_is_the_programs_own() -> None:
    """The embedding is linear in the weights."""
    embed, variables = _made("linen", "embedding", INDICES, {})
    grad = jnp.arange(24.0).reshape(2, 3, 4)

    def transposed(variables: Any) -> Any:
        return jax.linear_transpose(lambda v: embed(v, INDICES)[0], variables)(grad)

    assert not calls_in(with_and_without(transposed, ("embedding",), variables))


@pytest.mark.slow
def test_weights_that_the_logits_have_too() -> None:
    embed = nn.Embed(10, 4)
    variables = embed.init(jax.random.key(1), INDICES)

    def loss(variables: Any, indices: Any) -> Any:
        hidden = jnp.sin(embed.apply(variables, indices)) + embed.apply(variables, indices + 1)
        logits = embed.apply(variables, hidden, method="attend")
        return optax.softmax_cross_entropy_with_integer_labels(logits, indices).sum()

    text = with_and_without(jax.value_and_grad(loss), ("embedding",), variables, INDICES)
    assert composite_names(text).count("ptxla.embedding") == 2
    expected = jax.jit(composites.jax.embedding)(variables["params"]["embedding"], INDICES)
    assert (embed.apply(variables, INDICES) == expected).all()
