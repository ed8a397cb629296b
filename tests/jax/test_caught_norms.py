"""Norms and embeddings of flax as entries, most of which have channels in front: the same bits as
without, also of gradients and of the moving averages that batch norms change."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.caught import (
    Call,
    Function,
    all_with_and_without,
    assert_left_alone,
    backward,
    by_name,
    calls_in,
    normal,
    of_linen,
    of_nnx,
    weighted,
    with_and_without,
)
from composites_testing.jax_calls import composite_names

import composites.jax

IMAGE = normal(0, 2, 5, 3, 8)
BF16 = jnp.bfloat16
NARROW = jnp.asarray(np.asarray(IMAGE), BF16)
INDICES = jnp.asarray([[1, 2, 9], [0, 3, 3]], jnp.int32)
NO_PARAMETERS = {"use_bias": False, "use_scale": False}


@dataclass(frozen=True)
class Norm:
    """A module that both interfaces of flax have by this name."""

    name: str
    cases: dict[str, tuple[Any, dict[str, Any]]]
    """Inputs and options."""
    only_linen: tuple[str, ...] = ()
    """Cases that flax.nnx does not have."""
    backward: str = ""
    """The entry of the gradient, where it is a composite."""
    says: tuple[str, ...] = ()
    """Text of the composites."""


def _layer_norm_types(of_input: str, of_parameters: str) -> str:
    # Mean and reciprocal standard deviation have the input's type, as in PyTorch programs.
    full, row, moment = f"2x5x3x8x{of_input}", f"8x{of_parameters}", f"2x5x3x1x{of_input}"
    return (
        f"(tensor<{full}>, tensor<{row}>, tensor<{row}>)"
        f" -> (tensor<{full}>, tensor<{moment}>, tensor<{moment}>)"
    )


INFERENCE = {"use_running_average": True}
NORMS = {
    "layer_norm": Norm(
        "LayerNorm",
        {
            "f32": (IMAGE, {}),
            "bf16": (NARROW, {"dtype": BF16}),
            "bf16 parameters": (NARROW, {"dtype": BF16, "param_dtype": BF16}),
            "bf16 by its operands": (NARROW, {"param_dtype": BF16}),
        },
        backward="layer_norm",
        says=tuple(_layer_norm_types(*t) for t in (("f32",) * 2, ("bf16", "f32"), ("bf16",) * 2)),
    ),
    "rms_norm": Norm("RMSNorm", {"f32": (IMAGE, {})}, backward="rms_norm"),
    "group_norm": Norm(
        "GroupNorm",
        {
            "four groups": (IMAGE, {"num_groups": 4}),
            "without bias": (IMAGE, {"num_groups": 2, "use_bias": False}),
            "sizes of groups": (IMAGE, {"num_groups": None, "group_size": 2, "use_bias": False}),
            "without parameters": (IMAGE, {"num_groups": 2, **NO_PARAMETERS}),
            "slow variance": (
                IMAGE,
                {"num_groups": 2, "use_fast_variance": False, "epsilon": 1e-3},
            ),
            "channels alone": (IMAGE[:, 0, 0], {"num_groups": 4}),
            "one dimension": (IMAGE[:, 0], {"num_groups": 1, "reduction_axes": (1, -1)}),
            "bf16": (NARROW, {"num_groups": 4, "dtype": BF16, "param_dtype": BF16}),
        },
        only_linen=("one dimension",),
        backward="group_norm",
        says=(
            "{C = 8 : i64, HxW = 15 : i64, N = 2 : i64, eps = 9.99999997E-7 : f32,"
            " group = 4 : i64}",
            # The result, mean, and reciprocal standard deviation.
            "(tensor<2x8x5x3xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x5x3xf32>,"
            " tensor<2x4xf32>, tensor<2x4xf32>)",
        ),
    ),
    "instance_norm": Norm(
        "InstanceNorm",
        {
            "f32": (IMAGE, {}),
            "one dimension": (IMAGE[:, 0], {"epsilon": 1e-3}),
            "without parameters": (IMAGE, NO_PARAMETERS),
            "slow variance": (IMAGE, {"use_fast_variance": False}),
            "bf16": (NARROW, {"dtype": BF16, "param_dtype": BF16}),
        },
        backward="instance_norm",
    ),
    "batch_norm_inference": Norm(
        "BatchNorm",
        {
            "f32": (IMAGE, INFERENCE),
            "two dimensions": (IMAGE[:, 0, 0], {"epsilon": 1e-3, **INFERENCE}),
            "bf16": (NARROW, {"dtype": BF16, **INFERENCE}),
            "bf16 parameters": (NARROW, {"dtype": BF16, "param_dtype": BF16, **INFERENCE}),
        },
        only_linen=("bf16", "bf16 parameters"),
        says=(
            "eps = 9.99999974E-6 : f32",
            f"(tensor<2x8x5x3xf32>{', tensor<8xf32>' * 4}) -> (tensor<2x8x5x3xf32>, ",
        ),
    ),
    "batch_norm_training": Norm(
        "BatchNorm",
        {
            "f32": (IMAGE, {"use_running_average": False}),
            "two dimensions": (
                IMAGE[:, 0, 0],
                {"use_running_average": False, "epsilon": 1e-3, "momentum": 0.9},
            ),
            "bf16": (NARROW, {"use_running_average": False, "dtype": BF16}),
            "slow variance": (IMAGE, {"use_running_average": False, "use_fast_variance": False}),
        },
        backward="batch_norm_training",
        says=("momentum = 1.000000e-01", "eps = 9.99999974E-6 : f32"),
    ),
    "embedding": Norm(
        "Embed",
        {
            "f32": (INDICES, {}),
            "bf16": (INDICES, {"dtype": BF16}),
            "bf16 parameters": (INDICES, {"param_dtype": BF16, "dtype": BF16}),
            "an index": (INDICES[0, 0], {}),
            "three dimensions": (INDICES[:, None], {}),
            "no indices": (INDICES[:0], {}),
            "out of range": (jnp.asarray([-1, 10, 2], jnp.int32), {}),
        },
        backward="embedding_dense",
    ),
}
INTERFACES = pytest.mark.parametrize(
    "interface", ["linen", pytest.param("nnx", marks=pytest.mark.slow)]
)


def _made(
    interface: str, entry: str, x: Any, options: dict[str, Any], **other: Any
) -> tuple[Function, Any]:
    """A function of variables and an input, and the variables."""
    import flax.linen as nn
    from flax import nnx

    name = NORMS[entry].name
    if entry == "embedding":
        options = {"num_embeddings": 10, "features": 4, **options}
    if interface == "linen":
        return of_linen(getattr(nn, name)(**options), x, **other)
    sizes = () if entry == "embedding" else (x.shape[-1],)
    return of_nnx(getattr(nnx, name)(*sizes, **options, rngs=nnx.Rngs(0)))


def _with_gradients(run: Function, argnums: int | tuple[int, ...] = (0, 1)) -> Function:
    """The weighted sum, the changed averages, and gradients of variables and input."""

    def loss(variables: Any, x: Any) -> Any:
        averages: list[Any] = []

        def result(*arguments: Any) -> Any:
            found, changed = run(*arguments)
            averages.append(changed)
            return jnp.sin(found.astype(jnp.float32))

        return weighted(result, variables, x), averages.pop()

    return jax.value_and_grad(loss, argnums, has_aux=True)


@INTERFACES
@pytest.mark.parametrize(
    "entry",
    ["embedding", *(pytest.param(e, marks=pytest.mark.slow) for e in NORMS if e != "embedding")],
)
def test_bits(entry: str, interface: str) -> None:
    norm = NORMS[entry]
    programs: dict[str, Call] = {}
    gradients: dict[str, Call] = {}
    for name, (x, options) in norm.cases.items():
        if interface == "linen" or name not in norm.only_linen:
            run, variables = _made(interface, entry, x, options)
            programs[name] = run, (variables, x)
            of_input = jnp.issubdtype(x.dtype, jnp.floating)
            gradients[name] = _with_gradients(run, (0, 1) if of_input else 0), (variables, x)
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
"""What norms compute, of channels in front, with the averages afterwards."""


@pytest.mark.slow
@INTERFACES
def test_norms_mean_their_entries(interface: str) -> None:
    for entry, meaning in MEANINGS.items():
        x, options = next(iter(NORMS[entry].cases.values()))
        run, variables = _made(interface, entry, x, options)

        def of_entry(
            variables: Any, x: Any, meaning: Callable[..., Any] = meaning
        ) -> tuple[Any, list[Any]]:
            result, *averages = meaning(jnp.moveaxis(x, -1, 1), **by_name(variables))
            return jnp.moveaxis(result, 1, -1), averages

        def compared(run: Function, variables: Any = variables, x: Any = x) -> Any:
            found, averages = run(variables, x)
            _, gradient = _with_gradients(run, 1)(variables, x)
            return found, gradient, averages

        found, gradient, averages = jax.jit(lambda run=run: compared(run))()
        expected = jax.jit(lambda of_entry=of_entry: compared(of_entry))()
        np.testing.assert_allclose(found, expected[0], rtol=2e-5, atol=2e-5, err_msg=entry)
        np.testing.assert_allclose(gradient, expected[1], rtol=2e-4, atol=2e-5, err_msg=entry)
        if expected[2]:
            changed = by_name(averages)
            for one, other in zip((changed["mean"], changed["var"]), expected[2], strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [BF16, jnp.float32], ids=["bf16", "f32"])
def test_moments_are_those_of_the_entry(dtype: Any) -> None:
    """What a kernel of the forward returns beside the output means the same as in the entry."""
    from lowering.jax_programs.functions.norms import _WithMoments

    x = (3 * IMAGE + 1).astype(dtype)
    found = jax.jit(_WithMoments(lambda x: [x], (3,), 1e-6))(x)[1:]
    expected = jax.jit(lambda x: composites.jax.layer_norm(x, [8], None, None, 1e-6)[1:])(x)
    tolerance = 1e-2 if dtype is BF16 else 1e-5
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        wide = one.astype(jnp.float32), other.astype(jnp.float32)
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


# ---- what is left alone ----


@dataclass(frozen=True)
class LeftAlone:
    entry: str
    reason: str
    options: dict[str, Any] = field(default_factory=dict)
    x: Any = None
    interface: str = "linen"


OTHER_TYPE = "results are not those of the entry"
NO_CHANNELS = "channels are not the last one of at least three"
LEFT_ALONE = (
    LeftAlone("batch_norm_inference", "statistics of the batch", {"use_running_average": False}),
    LeftAlone("batch_norm_inference", "channels are not the last one", {"axis": 1, **INFERENCE}),
    LeftAlone("batch_norm_inference", "name of an axis", {"axis_name": "batch", **INFERENCE}),
    LeftAlone("batch_norm_inference", "bias is not", {"use_bias": False, **INFERENCE}),
    LeftAlone("batch_norm_inference", OTHER_TYPE, {"dtype": BF16, **INFERENCE}),
    LeftAlone(
        "batch_norm_inference", "rounds the moving averages", {"dtype": BF16, **INFERENCE}, NARROW,
        "nnx",
    ),
    LeftAlone("instance_norm", NO_CHANNELS, x=IMAGE[:, 0, 0]),
    LeftAlone("instance_norm", NO_CHANNELS, {"feature_axes": (2, 3)}),
    LeftAlone("instance_norm", "bias is given, and weight is not", {"use_scale": False}),
    LeftAlone("instance_norm", "the name of an axis", {"axis_name": "batch"}),
    LeftAlone("instance_norm", OTHER_TYPE, {"dtype": BF16}),
    LeftAlone(
        "group_norm", "its axes are not all but the first one",
        {"num_groups": 2, "reduction_axes": (2, 3)},
    ),
    LeftAlone(
        "group_norm", "bias is given, and weight is not", {"num_groups": 2, "use_scale": False}
    ),
    LeftAlone("group_norm", "the input has no elements", {"num_groups": 2}, IMAGE[:0]),
    LeftAlone("group_norm", "no batch", {"num_groups": 2}, IMAGE[0, 0, 0]),
    LeftAlone("group_norm", OTHER_TYPE, {"num_groups": 2}, NARROW),
    *(
        LeftAlone("layer_norm", OTHER_TYPE, options, x, interface)
        for options, x in (({}, NARROW), ({"dtype": jnp.float32}, NARROW), ({"dtype": BF16}, IMAGE))
        for interface in ("linen", "nnx")
    ),
    *(
        LeftAlone("embedding", reason, options, x, interface)
        for reason, options, x in (
            ("of i32 or i64", {}, INDICES.astype(jnp.uint8)),
            ("there is one row", {"num_embeddings": 1}, jnp.zeros_like(INDICES)),
        )
        for interface in ("linen", "nnx")
    ),
)  # fmt: skip


@pytest.mark.slow
def test_what_is_left_alone() -> None:
    programs = {}
    for one in LEFT_ALONE:
        like = INDICES if one.entry == "embedding" else IMAGE
        x = like if one.x is None else one.x
        named = {"axis_name": one.options["axis_name"]} if "axis_name" in one.options else {}
        options = {name: value for name, value in one.options.items() if name not in named}
        run, variables = _made(one.interface, one.entry, like, options, **named)
        if named:
            run, x = jax.vmap(run, (None, 0), axis_name=named["axis_name"]), x[None]
        programs[f"{one}"] = one.entry, (run, (variables, x)), one.reason
    assert_left_alone(programs)


def test_initializations_and_masks_are_left_alone() -> None:
    import flax.linen as nn

    module = nn.BatchNorm(use_running_average=False)
    initialized = partial(module.init, jax.random.key(1), IMAGE)
    assert not calls_in(with_and_without(initialized, ("batch_norm_training",)))
    plain, mask = nn.GroupNorm(2, use_bias=False, use_scale=False), jnp.ones(IMAGE.shape, bool)
    masked = partial(plain.apply, {}, mask=mask)
    assert_left_alone({"mask": ("group_norm", (masked, (IMAGE,)), "it has a mask")})


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
    import flax.linen as nn

    variables = nn.BatchNorm(use_running_average=True).init(jax.random.key(1), IMAGE)
    call = partial(nn.BatchNorm().apply, variables, use_running_average=np.bool_(True))
    text = with_and_without(call, ("batch_norm_inference",), IMAGE)
    assert composite_names(text) == ["ptxla.batch_norm_inference"]


# ---- in programs ----


def test_a_transposed_embedding_is_the_programs_own() -> None:
    """It is linear in the weights."""
    embed, variables = _made("linen", "embedding", INDICES, {})
    grad = jnp.arange(24.0).reshape(2, 3, 4)

    def transposed(variables: Any) -> Any:
        return jax.linear_transpose(lambda v: embed(v, INDICES)[0], variables)(grad)

    assert not calls_in(with_and_without(transposed, ("embedding",), variables))


@pytest.mark.slow
def test_weights_that_the_logits_have_too() -> None:
    import flax.linen as nn
    import optax

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
