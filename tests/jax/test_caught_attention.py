"""Attention of `jax.nn` and flax as `dot_product_attention`: the same bits as without, and what the
composite says."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.jax_calls import composite_names
from flax import nnx

import composites.jax
from lowering.frontends.jax.internals import knows_sums
from lowering.stablehlo.run import enable_x64

NAME = "dot_product_attention"
FORWARD, BACKWARD = f"ptxla.{NAME}", f"ptxla.{NAME}_backward"

attention = jax.nn.dot_product_attention


def _normal(seed: int, *shape: int) -> Any:
    return jax.random.normal(jax.random.key(seed), shape)


def _operands(heads: int = 4, of_keys: int = 2) -> tuple[Any, Any, Any]:
    return _normal(0, 2, 5, heads, 8), _normal(1, 2, 6, of_keys, 8), _normal(2, 2, 6, of_keys, 8)


GROUPED, ALIKE = _operands(), _operands(4, 4)
BIAS, MASK = _normal(3, 1, 4, 5, 6), _normal(4, 2, 1, 5, 6) > -1
CAUSAL: dict[str, Any] = dict.fromkeys(
    {"is_causal"} & set(inspect.signature(nnx.dot_product_attention).parameters), True
)
"""What newer versions of flax.nnx have."""
NOTHING = jnp.zeros((1, 1, 5, 6), bool)


@dataclass(frozen=True)
class Program:
    """A call of attention, and its arrays; with the entry's own arguments for the same."""

    run: Callable[..., Any]
    arrays: tuple[Any, ...]
    entry: Callable[..., Any] | None = None


def _own(*arrays: Any, **options: Any) -> Any:
    return composites.jax.entry(NAME)(*arrays, **options)


PROGRAMS = {
    "grouped": Program(attention, GROUPED, _own),
    "causal": Program(
        partial(attention, is_causal=True, scale=0.3),
        GROUPED,
        partial(_own, is_causal=True, scale=0.3),
    ),
    "bias and mask": Program(
        lambda q, k, v, b, m: attention(q, k, v, b, m),
        (*GROUPED, BIAS, MASK),
        lambda q, k, v, b, m: _own(q, k, v, m, b),
    ),
    "linen": Program(
        lambda q, k, v, m: nn.dot_product_attention(q, k, v, mask=m),
        (*ALIKE, MASK.astype(jnp.float32)),
        lambda q, k, v, m: _own(q, k, v, m != 0),
    ),
}
MORE_PROGRAMS = {
    "mask": Program(
        lambda q, k, v, m: attention(q, k, v, mask=m),
        (*GROUPED, MASK),
        lambda q, k, v, m: _own(q, k, v, m),
    ),
    "bias": Program(
        lambda q, k, v, b: attention(q, k, v, b, is_causal=True),
        (*GROUPED, BIAS),
        lambda q, k, v, b: _own(q, k, v, b, is_causal=True),
    ),
    "all masked": Program(
        lambda q, k, v, m: attention(q, k, v, mask=m),
        (*GROUPED, NOTHING),
        lambda q, k, v, m: _own(q, k, v, m),
    ),
    "without a batch": Program(attention, tuple(x[0] for x in GROUPED), _own),
    "linen with a bias": Program(
        lambda q, k, v, b, m: nn.dot_product_attention(q, k, v, b, m),
        (*ALIKE, BIAS, MASK),
        lambda q, k, v, b, m: _own(q, k, v, m, b),
    ),
    "linen, values of another size": Program(
        nn.dot_product_attention, (*ALIKE[:2], ALIKE[2][..., :3]), _own
    ),
    "linen, two batches": Program(
        nn.dot_product_attention, tuple(jnp.stack([x, 2 * x]) for x in ALIKE), _own
    ),
    "nnx": Program(
        lambda q, k, v, m: nnx.dot_product_attention(q, k, v, mask=m, **CAUSAL),
        (*ALIKE, MASK),
        lambda q, k, v, m: _own(q, k, v, m, **CAUSAL),
    ),
    "nnx, evaluated": Program(
        partial(nnx.dot_product_attention, dropout_rate=0.5, deterministic=True), ALIKE, _own
    ),
}


@pytest.fixture(
    params=[
        *PROGRAMS.items(),
        *(pytest.param(item, marks=pytest.mark.exhaustive) for item in MORE_PROGRAMS.items()),
    ],
    ids=lambda item: item[0],
)
def program(request: pytest.FixtureRequest) -> Program:
    return request.param[1]


@pytest.fixture(autouse=True)
def _all_off() -> Iterator[None]:
    yield
    composites.jax.disable()


def weighted(function: Callable[..., Any], arrays: tuple[Any, ...]) -> Any:
    result = function(*arrays)
    return (result * jnp.cos(jnp.arange(result.size)).reshape(result.shape)).sum()


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The loss and the gradients of all arrays of floats."""

    def run(*arrays: Any) -> Any:
        floats = [n for n, x in enumerate(arrays) if jnp.issubdtype(x.dtype, jnp.floating)]
        chosen = tuple(floats)
        return jax.value_and_grad(lambda *given: weighted(function, given), chosen)(*arrays)

    return run


def with_and_without(
    function: Callable[..., Any], *arrays: Any, entries: tuple[str, ...] = (NAME,)
) -> Counter[str]:
    """The composites of a program while entries are on. Its results have the bits of those
    without."""
    compiled = jax.jit(function)
    before = compiled(*arrays)
    with composites.jax.enabled(*entries):
        after = compiled(*arrays)
        found = composite_names(compiled.lower(*arrays).as_text())
    one, other = ([np.asarray(x).tobytes() for x in jax.tree.leaves(t)] for t in (before, after))
    assert one == other
    return Counter(found)


def test_forward(program: Program) -> None:
    assert with_and_without(program.run, *program.arrays) == {FORWARD: 1}


def test_gradients(program: Program) -> None:
    backward = {BACKWARD: 1} if knows_sums() else {}
    found = with_and_without(gradients(program.run), *program.arrays)
    assert found == {FORWARD: 1, **backward}


def test_programs_mean_the_entry(program: Program) -> None:
    """The function computes what the entry computes in PyTorch programs, with its gradients."""
    assert program.entry is not None
    for one, other in (
        (program.run, program.entry),
        (gradients(program.run), gradients(program.entry)),
    ):
        jax.tree.map(
            partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-6),
            one(*program.arrays),
            other(*program.arrays),
        )


@pytest.mark.parametrize("lengths", [(33, 33), (64, 128)])
def test_longer_ones(lengths: tuple[int, int]) -> None:
    t, s = lengths
    arrays = _normal(0, 2, t, 4, 32), _normal(1, 2, s, 4, 32), _normal(2, 2, s, 4, 32)
    with_and_without(gradients(partial(attention, is_causal=True)), *arrays)
    with_and_without(gradients(nn.dot_product_attention), *arrays)


def test_what_the_composites_say() -> None:
    def run(q: Any, k: Any, v: Any, b: Any, m: Any) -> Any:
        return gradients(partial(attention, is_causal=True, scale=0.5))(q, k, v, b, m)

    with composites.jax.enabled(NAME):
        text = jax.jit(run).lower(*GROUPED, BIAS, MASK).as_text()
        absent = jax.jit(attention).lower(*GROUPED).as_text()
    calls = [line for line in text.splitlines() if "stablehlo.composite" in line]
    q, k, m, b = "2x5x4x8xf32", "2x6x2x8xf32", "2x1x5x6xi1", "1x4x5x6xf32"
    assert all("is_causal = true" in c and "scale = 5.000000e-01 : f32" in c for c in calls)
    operands = ", ".join(f"tensor<{type_}>" for type_ in (q, k, k, m, b))
    assert f"({operands}) -> " in calls[0]
    if knows_sums():
        saved = f"{operands}, tensor<{q}>, tensor<2x5x4xf32>"  # the result, and the log-sum-exp
        assert f"(tensor<{q}>, {saved}) -> " in calls[1]
        assert "output_mask = dense<[true, true, true, false, true]>" in calls[1]
    assert "is_causal = false}" in absent
    assert "scale" not in absent.partition("stablehlo.composite")[2].partition("}")[0]


def test_other_entries_are_not_inside() -> None:
    """Softmax, and attention of jax.nn in that of flax, are part of the decomposition."""
    found = with_and_without(nnx.dot_product_attention, *ALIKE, entries=(NAME, "softmax"))
    assert found == {FORWARD: 1}


def test_an_array_that_is_given_twice() -> None:
    x = _normal(0, 2, 5, 4, 8)
    run = gradients(lambda x: attention(x, x, x))
    assert with_and_without(run, x) == {FORWARD: 1}
    with composites.jax.enabled(NAME):
        text = jax.jit(lambda x: attention(x, x, x)).lower(x).as_text()
    inner = text.partition(f"func.func private @{FORWARD}")[2]
    assert all(f"%arg{n}" in inner.partition("{")[2] for n in range(3))


def test_loop_and_checkpoint() -> None:
    def looped(q: Any, k: Any, v: Any) -> Any:
        def step(total: Any, factor: Any) -> tuple[Any, None]:
            return total + attention(q * factor, k, v), None

        return jax.lax.scan(step, jnp.zeros_like(q), jnp.arange(3.0))[0]

    assert with_and_without(looped, *GROUPED) == {FORWARD: 1}
    assert with_and_without(jax.checkpoint(attention), *GROUPED) == {FORWARD: 1}


def test_vmap_has_the_bits_of_jax() -> None:
    many = tuple(jnp.stack([x, 2 * x]) for x in GROUPED)
    backward = {BACKWARD: 1} if knows_sums() else {}
    assert with_and_without(jax.vmap(attention), *many) == {FORWARD: 1}
    assert with_and_without(gradients(jax.vmap(attention)), *many) == {FORWARD: 1, **backward}


# ---- modules of flax ----


def test_modules_of_flax() -> None:
    x = _normal(5, 2, 7, 16)
    module = nn.MultiHeadDotProductAttention(num_heads=2)
    variables = module.init(jax.random.key(1), x)
    causal = nn.make_causal_mask(x[..., 0])
    linen = partial(module.apply, variables, mask=causal)
    made = nnx.MultiHeadAttention(num_heads=2, in_features=16, decode=False, rngs=nnx.Rngs(0))
    graph, state = nnx.split(made)
    backward = {BACKWARD: 1} if knows_sums() else {}
    for run in (linen, lambda x: nnx.merge(graph, state)(x)):
        found = with_and_without(gradients(run), x, entries=(NAME, "softmax"))
        assert found == {FORWARD: 1, **backward}


# ---- what falls back ----


def _of_linen(**options: Any) -> Callable[..., Any]:
    return partial(nn.dot_product_attention, **options)


LENGTHS = jnp.array([3, 2], jnp.int32)
KEY = jax.random.key(7)
FALLBACKS: dict[str, tuple[Callable[..., Any], str]] = {
    "lengths of keys": (partial(attention, key_value_seq_lengths=LENGTHS), "lengths of sequences"),
    "lengths of queries": (partial(attention, query_seq_lengths=LENGTHS), "lengths of sequences"),
    "window": (partial(attention, is_causal=True, local_window_size=2), "a local window"),
    "scale": (
        lambda q, k, v: attention(q, k, v, scale=jnp.abs(q).max()),
        "scale is an array",
    ),
    "types": (
        lambda q, k, v: _of_linen()(q, k.astype(jnp.bfloat16), v),
        "no arrays of one type of floats",
    ),
    "dropout": (_of_linen(dropout_rng=KEY, dropout_rate=0.5), "weights are dropped out"),
    "dropout of nnx": (
        partial(nnx.dot_product_attention, dropout_rng=KEY, dropout_rate=0.5),
        "weights are dropped out",
    ),
    "precision": (_of_linen(precision="highest"), "a precision is given"),
    "type of the computation": (
        _of_linen(dtype=jnp.bfloat16),
        "another type than the computation",
    ),
    "products": (_of_linen(einsum_dot_general=jax.lax.dot_general), "functions for products"),
    "bias": (
        lambda q, k, v: attention(q, k, v, MASK.astype(jnp.int32)),
        "the bias is no array of floats",
    ),
}


@pytest.mark.parametrize("case", FALLBACKS.values(), ids=FALLBACKS)
def test_fallback(case: tuple[Callable[..., Any], str]) -> None:
    run, reason = case
    assert with_and_without(run, *ALIKE) == {}
    assert _has_reason(reason)


def _has_reason(reason: str) -> bool:
    """Whether a call of this file was left alone for a reason."""
    found = composites.jax.stats().entries[FORWARD].fallbacks
    return any(__file__ in site for f in found if reason in f.reason for site in f.sites)


def test_weights_that_are_kept() -> None:
    x = _normal(5, 2, 7, 16)
    module = nn.MultiHeadDotProductAttention(num_heads=2)
    variables = module.init(jax.random.key(1), x)
    run = partial(module.apply, variables, sow_weights=True, mutable=["intermediates"])
    assert with_and_without(run, x, entries=(NAME, "softmax")) == {"ptxla.softmax": 1}
    assert _has_reason("the program keeps the weights")


def test_log_sum_exp_as_a_result() -> None:
    run = partial(attention, return_residual=True)
    if "return_residual" in inspect.signature(attention).parameters:
        assert with_and_without(run, *ALIKE) == {}
        assert _has_reason("the logarithms of sums are a result too")
    else:  # jax 0.7.1
        with composites.jax.enabled(NAME), pytest.raises(TypeError, match="return_residual"):
            run(*ALIKE)


def test_f64() -> None:
    with enable_x64():
        wide = [x.astype(jnp.float64) for x in GROUPED]
        assert with_and_without(attention, *wide) == {}
    assert _has_reason("JAX computes the softmax of f64 in f32")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"implementation": "other"}, "Unsupported implementation option: other"),
        ({"mask": MASK.astype(jnp.float32)}, "mask dtype should be bool"),
        ({"bias": BIAS[..., :5]}, "shapes"),
    ],
    ids=["implementation", "mask", "bias"],
)
def test_mistakes_are_those_of_jax(options: dict[str, Any], message: str) -> None:
    with composites.jax.enabled(NAME), pytest.raises((ValueError, TypeError), match=message):
        attention(*GROUPED, **options)
    assert "implementation" not in options or _has_reason("the implementation 'other'")
