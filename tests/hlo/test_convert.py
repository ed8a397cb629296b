"""to_stablehlo: the same numbers in fewer operations, from HLO that jax lowers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from composites_testing.hlo import hlo_of

from lowering.emission import hlo_proto
from lowering.emission.literals import as_literal, convert, fold, is_number, values
from lowering.hlo.convert import to_stablehlo
from lowering.stablehlo import Module, compile_module
from lowering.stablehlo.dtypes import numpy_dtype

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def converted(function: Callable[..., Any], *arrays: Any) -> Module:
    module = to_stablehlo(hlo_of(function, *arrays, keep_unused=True))
    assert module is not None
    module.verify()
    return module


FUNCTIONS = {
    "one": lambda x: x * 1.0,
    "same twice": lambda x: jnp.tanh(x) + jnp.tanh(x),
    "reshapes": lambda x: x.reshape(12).reshape(2, 6).reshape(4, 3),
    "transposes": lambda x: x.reshape(1, 3, 4).transpose(2, 0, 1).transpose(1, 2, 0),
    "broadcasts": lambda x: jax.lax.broadcast(jax.lax.broadcast(x, (2,)), (5,)),
    "positions": lambda x: jnp.where(jnp.array([0, 1, 2, 3]) >= jnp.array([2]), x, 0.5),
    "erf": jax.scipy.special.erf,
    "rows": lambda x: x[jnp.array([2, 0])].sum(axis=1),
    "sorted": lambda x: jnp.sort(x, axis=1),
    "product": lambda x: x @ x.T,
    "added rows": lambda x: x.at[jnp.array([2, 2])].add(1.0),
    "convolution": lambda x: jax.lax.conv(x[None, None], jnp.ones((1, 1, 2, 2)), (1, 1), "SAME"),
    "windows": lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 2), (1, 2), "VALID"),
    "gradient of windows": jax.grad(
        lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (1, 1), "VALID").sum()
    ),
    "not padded": lambda x: jax.lax.pad(x, 0.0, ((0, 0, 0), (0, 0, 0))) * 2,
    "transposed broadcast": lambda x: jnp.tile(x[:, 0], (4, 1)).T + x,
    "called": lambda x: jax.jit(jnp.exp)(x) + jax.jit(jnp.exp)(x * 2),
}


def test_numbers_stay() -> None:
    """All functions in one module have JAX's numbers."""

    def all_of_them(x: Any) -> list[Any]:
        return [function(x) for function in FUNCTIONS.values()]

    results = compile_module(converted(all_of_them, X))(X)
    expected = jax.jit(all_of_them)(X)
    for name, result, right in zip(FUNCTIONS, results, expected, strict=True):
        np.testing.assert_array_equal(result, np.asarray(right), err_msg=name)


def test_what_changes_nothing_is_gone() -> None:
    left = {"one": 0, "same twice": 2, "reshapes": 1, "transposes": 1, "broadcasts": 1}
    texts = {name: converted(FUNCTIONS[name], X).text for name in left}
    assert {name: text.count(" = stablehlo.") for name, text in texts.items()} == left


def test_calls_are_inlined_and_defaults_are_not_written() -> None:
    assert "call @" not in converted(FUNCTIONS["called"], X).text
    text = converted(lambda x: (x @ x.T)[jnp.array([2, 0])], X).text
    for default in ("precision", "indices_are_sorted", "mhlo."):
        assert default not in text
    text = converted(FUNCTIONS["convolution"], X).text + converted(FUNCTIONS["windows"], X).text
    for default in ("precision", "dilat", "reversal", "stride = ", "padding = "):
        assert default not in text
    assert "stablehlo.pad" not in converted(FUNCTIONS["not padded"], X).text


def test_what_is_not_known_is_left_to_the_frontend() -> None:
    loop = hlo_of(lambda x: jax.lax.while_loop(lambda v: v.sum() < 9.0, lambda v: v + 1.0, x), X)
    assert to_stablehlo(loop) is None


F32, I32, BF16 = (hlo_proto.PRIMITIVE_TYPES[name] for name in ("f32", "i32", "bf16"))


def test_folds_round_as_f32_does() -> None:
    one, three = np.array(1, np.float32), np.array(3, np.float32)
    assert fold("divide", one, three) == np.float32(1) / np.float32(3)


def test_integers_wrap_around() -> None:
    largest, one = np.array(2**31 - 1, np.int32), np.array(1, np.int32)
    assert fold("add", largest, one) == -(2**31)


def test_folds_that_are_not_exact_are_left() -> None:
    one, zero = np.array(1, np.float32), np.array(0, np.float32)
    assert fold("divide", one, zero) is None
    assert fold("divide", np.array(7), np.array(2)) is None
    assert fold("add", np.array(1, np.float16), np.array(1, np.float16)) is None
    assert convert(np.array(2**60 + 1), F32) is None
    assert convert(np.array(1.5, np.float32), I32) is None
    assert convert(np.array(0.1), BF16) is None  # would be rounded twice
    assert convert(np.array(1e300), F32) is None


def test_a_negative_zero_is_no_zero() -> None:
    assert is_number(np.array(0, np.float32), 0)
    assert not is_number(np.array(-0.0, np.float32), 0)


def test_literals_are_read_back() -> None:
    for name in ("i1", "i32", "i64", "ui32", "f16", "bf16", "f32", "f64"):
        one = np.ones((), numpy_dtype(name))
        literal = as_literal(one, hlo_proto.Shape(element_type=hlo_proto.PRIMITIVE_TYPES[name]))
        assert literal is not None
        read = values(literal)
        assert read is not None
        assert read.dtype == one.dtype
        assert is_number(read, 1)


def test_a_composite_of_several_results_keeps_them() -> None:
    composite = jax.lax.composite(lambda x, *, axis: (jnp.exp(x), x * 2.0), "acme.pair", version=3)

    def function(x: Any) -> Any:
        exponential, double = composite(x, axis=1)
        return exponential - double

    text = converted(function, X).text
    assert '%0:2 = stablehlo.composite "acme.pair" %arg0' in text
    assert "composite_attributes = {axis = 1 : i64}" in text
    assert "version = 3 : i32" in text
    assert "-> (tensor<3x4xf32>, tensor<3x4xf32>)" in text
    np.testing.assert_array_equal(compile_module(converted(function, X))(X)[0], function(X))
