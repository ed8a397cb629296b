"""bind: JAX functions as decompositions, what they are called with, and what is refused."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.passes import composite_module, load, same_numbers

from lowering.stablehlo import (
    BindError,
    CompositeVersionError,
    Module,
    UnknownCompositeError,
    bind,
    clean,
    run,
    to_custom_call,
)

IGNORED = {"acme.twice": ("axis", "scale")}
"""Attributes that the doubling functions of these tests ignore."""


def softmax(x: Any, *, dim: int) -> Any:
    return jax.nn.softmax(x, axis=dim)


def test_jnp_functions_replace_decompositions() -> None:
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


def test_every_distinct_signature_is_lowered_once() -> None:
    shapes: list[tuple[int, ...]] = []

    def gelu(x: Any) -> Any:
        shapes.append(x.shape)
        return jax.nn.gelu(x, approximate=False)

    before = load("wrapped_gelu")
    after = bind(before, {"ptxla.gelu": gelu}, ignored={"ptxla.gelu": ["approximate"]})
    assert sorted(set(shapes)) == [(8, 16), (16,)]
    assert "@ptxla.gelu.impl(" in after.text
    assert "@ptxla.gelu.impl_0(" in after.text
    same_numbers(before, after, tolerance=1e-6)


def test_functions_of_the_lowering_get_names_of_their_own() -> None:
    @jax.jit
    def doubled(x: Any) -> Any:
        return jnp.where(x > 0, x, x) * 2

    before = load("block")
    after = bind(
        before,
        {"acme.twice": lambda x: doubled(x), "acme.tanh": lambda x: doubled(x) - x},
        ignored=IGNORED,
    )
    names = re.findall(r"func\.func (?:private )?@([\w.]+)", after.text)
    assert len(names) == len(set(names))
    assert "acme.twice.impl.doubled" in names
    assert "acme.tanh.impl.doubled" in names
    x, w = np.ones((4, 8), np.float32), np.eye(8, dtype=np.float32)
    np.testing.assert_allclose(run(after, x, w)[0], np.full((4, 8), 2.0))
    same_numbers(after, clean(after))


def test_a_function_gets_the_attributes_that_are_not_ignored() -> None:
    seen: list[dict[str, Any]] = []

    def every(x: Any, **attributes: Any) -> Any:
        seen.append(attributes)
        return x * 2

    def scaled(x: Any, scale: float = 0.0, unrelated: str = "kept") -> Any:
        seen.append({"scale": scale, "unrelated": unrelated})
        return x * 2

    def none(axis: Any) -> Any:  # a name that operand 0 already fills
        seen.append({})
        return axis * 2

    for function, ignored in (
        (every, ()),
        (every, ("axis",)),
        (scaled, ("axis",)),
        (scaled, ("axis", "scale")),
        (none, ("axis", "scale")),
        (partial(scaled, unrelated="bound"), ("axis",)),
        (jax.jit(none), ("axis", "scale")),
    ):
        bind(load("block"), {"acme.twice": function}, ignored={"acme.twice": ignored})
    assert seen == [
        {"axis": 1, "scale": 2.0},
        {"scale": 2.0},
        {"scale": 2.0, "unrelated": "kept"},
        {"scale": 0.0, "unrelated": "kept"},
        {},
        {"scale": 2.0, "unrelated": "bound"},
        {},
    ]


def test_a_function_without_a_parameter_for_an_attribute_is_refused() -> None:
    def twice(x: Any, axis: int) -> Any:
        return x * 2

    with pytest.raises(BindError) as caught:
        bind(load("block"), {"acme.twice": twice})
    assert str(caught.value) == (
        "acme.twice(tensor<4x8xf32>) -> (tensor<4x8xf32>): twice has no parameter for scale, which "
        "the call sets (scale=2.0); give it such a keyword parameter, or list scale as ignored if "
        "the result does not depend on it (ignored=, --ignore-attribute acme.twice=scale)"
    )
    for function in (lambda scale: scale * 2, jax.jit(lambda x: x * 2), np.square, next):
        with pytest.raises(BindError, match=r"has no parameter for .*scale"):
            bind(load("block"), {"acme.twice": function}, ignored={"acme.twice": ["axis"]})


def test_what_is_listed_as_ignored_has_to_exist() -> None:
    bindings = {"acme.twice": lambda x, axis, scale: x * 2}
    with pytest.raises(UnknownCompositeError, match=r"no composite matches 'acme\.twic'"):
        bind(load("block"), bindings, ignored={"acme.twic": ["axis"]})


def versions(*numbers: int) -> Module:
    """x, a composite of each of these versions that adds nothing to it."""
    calls = "".join(
        f"""
        %{number} = stablehlo.composite "acme.same" %x {{decomposition = @impl,
          version = {number} : i32}} : (tensor<2xf32>) -> tensor<2xf32>"""
        for number in numbers
    )
    return Module.parse(
        f"""
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ {calls}
          return %{numbers[-1]} : tensor<2xf32>
        }}
        func.func private @impl(%x: tensor<2xf32>) -> tensor<2xf32> {{ return %x : tensor<2xf32> }}
        """
    )


def test_a_name_with_a_version_binds_that_version() -> None:
    functions: dict[str, Callable[..., Any]] = {
        "acme.same@2": lambda x: x * 1,
        "acme.same": lambda x: x + 0,
    }
    for order in (functions, dict(reversed(functions.items()))):
        text = bind(versions(1, 2, 3), order).text
        assert text.count("stablehlo.multiply") == 1
        assert text.count("stablehlo.add") == 2


def test_another_version_is_refused() -> None:
    for present, called in ((versions(1), "1"), (versions(2, 3, 1), "1, acme.same@3")):
        for change in (
            partial(bind, present, {"acme.same@2": abs}),
            partial(to_custom_call, present, {"acme.same@2": "k"}),
        ):
            with pytest.raises(CompositeVersionError) as caught:
                change()
            assert str(caught.value) == (
                f"acme.same@2 is for version 2 only, and the module calls acme.same@{called}; "
                "name the version that the kernel is for, or write acme.same for all versions"
            )


def test_an_attribute_can_be_ignored_for_one_version() -> None:
    module = load("block")  # its composites have no version, which is version 0
    bind(module, {"acme.twice": lambda x, scale: x * 2}, ignored={"acme.twice@0": ["axis"]})
    with pytest.raises(CompositeVersionError, match=r"acme\.twice@1 is for version 1 only"):
        bind(module, {"acme.twice": lambda x, scale: x}, ignored={"acme.twice@1": ["axis"]})


def test_64_bit_types_are_kept() -> None:
    zeros, types = "%r = stablehlo.constant dense<0> : tensor<3xi64>", "tensor<3x4xf32>"
    attributes = "{dim = 1 : i64}"
    module = composite_module("acme.argmax", types, zeros, "tensor<3xi64>", attributes=attributes)
    bound = bind(module, {"acme.argmax": lambda x, dim: jnp.argmax(x, axis=dim).astype("int64")})
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(bound, x)[0], x.argmax(1))


def test_the_platform_to_lower_for_can_be_chosen() -> None:
    def per_platform(x: Any) -> Any:
        return jax.lax.platform_dependent(x, cpu=lambda x: x + x, cuda=lambda x: x * 2)

    texts = [
        bind(load("block"), {"acme.twice": per_platform}, ignored=IGNORED, platform=platform).text
        for platform in ("cpu", "cuda")
    ]
    assert ["stablehlo.add" in text for text in texts] == [True, False]


def test_other_result_types_are_refused() -> None:
    def summed(x: Any) -> Any:
        return x.sum(axis=1)

    with pytest.raises(BindError) as caught:
        bind(load("block"), {"acme.twice": summed}, ignored=IGNORED)
    assert str(caught.value) == (
        "acme.twice(tensor<4x8xf32>) -> (tensor<4x8xf32>): summed returns (tensor<4xf32>); "
        "it must return (tensor<4x8xf32>)"
    )
    functions = {
        "4x8xbf16": lambda x: x.astype(jnp.bfloat16),
        "4x8xf32>, tensor<4x8xf32": lambda x: (x, x),
    }
    for types, function in functions.items():
        with pytest.raises(BindError, match=rf"returns \(tensor<{types}>\)"):
            bind(load("block"), {"acme.twice": function}, ignored=IGNORED)


def test_dynamic_shapes_are_refused() -> None:
    module = composite_module("acme.f", "tensor<?xf32>")
    with pytest.raises(BindError, match=r"tensor<\?xf32>: a JAX function needs static shapes"):
        bind(module, {"acme.f": lambda x: x})
