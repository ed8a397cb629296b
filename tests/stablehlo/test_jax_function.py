"""jax_function: under jit, with composites, donation and 64-bit types; and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composites_testing.passes import load

from lowering.stablehlo import Module, RunError, jax_function
from lowering.stablehlo.run import enable_x64


def test_it_is_a_function_for_jit() -> None:
    function = jax_function(load("call_of_jax"))

    def twice(unused: jax.Array, x: jax.Array, n: jax.Array) -> jax.Array:
        return function(unused, function(unused, x, n)[0], n)[0] + 1

    with enable_x64():
        unused, x = jnp.zeros(2, jnp.bfloat16), jnp.arange(3, dtype=jnp.float32)
        step = jax.jit(twice, donate_argnums=1)
        np.testing.assert_array_equal(step(unused, x, np.int64(4)), [1, 5, 9])
        assert x.is_deleted()
        _, doubled = jax.jit(function)(unused, jnp.ones(3, jnp.float32), np.int64(2**40))
        assert int(doubled) == 2**41


UNCHANGED = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"


def test_what_is_refused() -> None:
    dynamic = UNCHANGED.replace("2xf32", "?xf32")
    for text, message in (
        ("func.func @other() { return }", "the module has no function @main to run"),
        (dynamic, r"jax has no array type for tensor<\?xf32>"),
    ):
        with pytest.raises(RunError, match=message):
            jax_function(Module.parse(text))
    other = jax_function(Module.parse(UNCHANGED), platform="cuda")
    with pytest.raises(ValueError, match=r"for platforms '\('cuda',\)'"):
        jax.jit(other)(jnp.ones(2))
