"""bind: JAX functions as decompositions, what they are called with, and what is refused."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

from lowering.stablehlo import BindError, Module, UnknownCompositeError, bind, clean, run

Load = Callable[[str], Module]
Same = Callable[..., None]


def softmax(x: Any, *, dim: int) -> Any:
    return jax.nn.softmax(x, axis=dim)


def test_jnp_functions_replace_decompositions(load: Load, same_numbers: Same) -> None:
    before = clean(load("transformer_step_torch_xla_2_9"))
    after = bind(
        before,
        {
            "ptxla.softmax": softmax,
            "ptxla.gelu": lambda x, approximate: jax.nn.gelu(x, approximate=approximate == "tanh"),
        },
    )
    assert after.text.count('stablehlo.composite "ptxla.softmax"') == 2
    assert after.text.count("func.func private @ptxla.softmax.impl(") == 1
    assert "jax.result_info" not in after.text
    assert after.text != before.text
    same_numbers(before, after, tolerance=1e-4)


def test_every_distinct_signature_is_lowered_once(load: Load, same_numbers: Same) -> None:
    shapes: list[tuple[int, ...]] = []

    def gelu(x: Any) -> Any:
        shapes.append(x.shape)
        return jax.nn.gelu(x, approximate=False)

    before = load("wrapped_gelu")
    after = bind(before, {"ptxla.gelu": gelu})
    assert sorted(set(shapes)) == [(8, 16), (16,)]
    assert "@ptxla.gelu.impl(" in after.text
    assert "@ptxla.gelu.impl_0(" in after.text
    same_numbers(before, after, tolerance=1e-6)


def test_functions_of_the_lowering_get_names_of_their_own(load: Load, same_numbers: Same) -> None:
    @jax.jit
    def doubled(x: Any) -> Any:
        return jnp.where(x > 0, x, x) * 2

    before = load("block")
    after = bind(
        before, {"acme.twice": lambda x: doubled(x), "acme.tanh": lambda x: doubled(x) - x}
    )
    names = re.findall(r"func\.func (?:private )?@([\w.]+)", after.text)
    assert len(names) == len(set(names))
    assert "acme.twice.impl.doubled" in names
    assert "acme.tanh.impl.doubled" in names
    x, w = np.ones((4, 8), np.float32), np.eye(8, dtype=np.float32)
    np.testing.assert_allclose(run(after, x, w)[0], np.full((4, 8), 2.0))
    same_numbers(after, clean(after))


def test_pallas_kernels_can_be_bound(load: Load, same_numbers: Same) -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2.0

    def twice(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pallas.pallas_call(kernel, out_shape=shape, interpret=True)(x)

    before = load("block")
    same_numbers(before, bind(before, {"acme.twice": twice}))


def test_ffi_calls_can_be_bound(load: Load) -> None:
    def twice(x: Any, scale: float) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call("acme_twice", shape)(x, scale=np.float32(scale))

    text = bind(load("block"), {"acme.twice": twice}).text
    assert "stablehlo.custom_call @acme_twice" in text
    assert "scale = 2.000000e+00 : f32" in text


def test_a_function_gets_the_attributes_it_has_parameters_for(load: Load) -> None:
    seen: list[dict[str, Any]] = []

    def every(x: Any, **attributes: Any) -> Any:
        seen.append(attributes)
        return x * 2

    def one(x: Any, scale: float = 0.0, unrelated: str = "kept") -> Any:
        seen.append({"scale": scale, "unrelated": unrelated})
        return x * 2

    def none(axis: Any) -> Any:  # a name that operand 0 already fills
        seen.append({})
        return axis * 2

    for function in (every, one, none, partial(one, unrelated="bound"), jax.jit(none)):
        bind(load("block"), {"acme.twice": function})
    assert seen == [
        {"axis": 1, "scale": 2.0},
        {"scale": 2.0, "unrelated": "kept"},
        {},
        {"scale": 2.0, "unrelated": "bound"},
        {},
    ]


def test_64_bit_types_are_kept() -> None:
    module = Module.parse(
        """
        func.func @main(%x: tensor<3x4xf32>) -> tensor<3xi64> {
          %0 = stablehlo.composite "acme.argmax" %x {composite_attributes = {dim = 1 : i64},
            decomposition = @impl} : (tensor<3x4xf32>) -> tensor<3xi64>
          return %0 : tensor<3xi64>
        }
        func.func private @impl(%x: tensor<3x4xf32>) -> tensor<3xi64> {
          %c = stablehlo.constant dense<0> : tensor<3xi64>
          return %c : tensor<3xi64>
        }
        """
    )
    bound = bind(module, {"acme.argmax": lambda x, dim: jnp.argmax(x, axis=dim).astype("int64")})
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(bound, x)[0], x.argmax(1))


def test_the_platform_to_lower_for_can_be_chosen(load: Load) -> None:
    def per_platform(x: Any) -> Any:
        return jax.lax.platform_dependent(x, cpu=lambda x: x + x, cuda=lambda x: x * 2)

    texts = [
        bind(load("block"), {"acme.twice": per_platform}, platform=platform).text
        for platform in ("cpu", "cuda")
    ]
    assert ["stablehlo.add" in text for text in texts] == [True, False]


def test_other_result_types_are_refused(load: Load) -> None:
    def summed(x: Any) -> Any:
        return x.sum(axis=1)

    with pytest.raises(BindError) as caught:
        bind(load("block"), {"acme.twice": summed})
    assert str(caught.value) == (
        "acme.twice(tensor<4x8xf32>) -> (tensor<4x8xf32>): summed returns (tensor<4xf32>); "
        "it must return (tensor<4x8xf32>)"
    )
    with pytest.raises(BindError, match=r"returns \(tensor<4x8xbf16>\)"):
        bind(load("block"), {"acme.twice": lambda x: x.astype(jnp.bfloat16)})
    with pytest.raises(BindError, match=r"returns \(tensor<4x8xf32>, tensor<4x8xf32>\)"):
        bind(load("block"), {"acme.twice": lambda x: (x, x)})


def test_a_function_that_fails_names_the_call(load: Load) -> None:
    with pytest.raises(BindError) as caught:
        bind(load("block"), {"ptxla.outer": softmax})
    assert str(caught.value) == (
        "ptxla.outer: softmax cannot be lowered for (tensor<4x8xf32>, tensor<4x8xf32>): "
        "TypeError: softmax() takes 1 positional argument but 2 were given"
    )


def test_dynamic_shapes_are_refused() -> None:
    module = Module.parse(
        """
        func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
          %0 = stablehlo.composite "acme.f" %x {decomposition = @impl}
            : (tensor<?xf32>) -> tensor<?xf32>
          return %0 : tensor<?xf32>
        }
        func.func private @impl(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }
        """
    )
    with pytest.raises(BindError, match=r"tensor<\?xf32>: a JAX function needs static shapes"):
        bind(module, {"acme.f": lambda x: x})


def test_an_unknown_name_lists_what_there_is(load: Load) -> None:
    with pytest.raises(UnknownCompositeError, match=r"no composite matches 'acme\.gelu'"):
        bind(load("block"), {"acme.gelu": softmax})
