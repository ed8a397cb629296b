"""`composites.jax`: names, arguments, conditions, errors, and what is imported."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from composites_testing.jax_calls import composite_names
from composites_testing.processes import run_python

import composites.jax
from composites.errors import AllowlistError, LoweringError
from lowering.stablehlo.run import enable_x64

WITHOUT_TORCH_XLA = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch_xla", "_XLAC"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import composites.jax
assert not {"torch", "jax"} & set(sys.modules), "importing it is cheap"

import jax, jax.numpy as jnp
gradient = jax.grad(lambda x: composites.jax.gelu(x, approximate="tanh").sum())
print("ptxla.gelu_backward" in jax.jit(gradient).lower(jnp.ones(3)).as_text())
assert "torch_xla" not in sys.modules
"""


@pytest.mark.process
def test_torch_xla_is_not_needed() -> None:
    finished = run_python(WITHOUT_TORCH_XLA)
    assert finished.stdout.strip() == "True", finished.stderr


def test_each_entry_is_an_attribute() -> None:
    assert {"gelu", "softmax", "rms_norm", "available", "entry"} <= set(dir(composites.jax))
    assert str(inspect.signature(composites.jax.gelu)) == "(self, *, approximate='none')"
    assert "aten::gelu(Tensor self" in (composites.jax.gelu.__doc__ or "")
    assert composites.jax.gelu is composites.jax.entry("ptxla.gelu")


def test_private_operators_have_the_arguments_of_public_functions() -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    pairs = {
        "softmax": (composites.jax.softmax(x), jax.nn.softmax(x)),
        "softmax, dim 0": (composites.jax.softmax(x, 0), jax.nn.softmax(x, 0)),
        "log_softmax": (composites.jax.log_softmax(x, dim=-1), jax.nn.log_softmax(x)),
        "weight_norm": (composites.jax.weight_norm(x, jnp.ones((3, 1))), x / _norms(x)),
        "fft_r2c": (composites.jax.fft_r2c(x, [1], 0), jnp.fft.rfft(x)),
        "fft_c2c": (composites.jax.fft_c2c(x + 0j, [1], 0), jnp.fft.fft(x)),
    }
    for name, (found, expected) in pairs.items():
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=name)


def _norms(x: jax.Array) -> jax.Array:
    return jnp.linalg.norm(x, axis=1, keepdims=True)


def test_unknown_names_have_a_hint() -> None:
    with pytest.raises(AttributeError, match="did you mean 'gelu'"):
        composites.jax.gelo  # noqa: B018
    with pytest.raises(AllowlistError, match=r"there is no composite 'acme\.gelu'"):
        composites.jax.entry("acme.gelu")
    with pytest.raises(AllowlistError, match="write one of"):
        composites.jax.entry("matmul_out_dtype")


def test_calls_that_an_entry_leaves_alone_are_computed() -> None:
    v, g = jnp.ones((2, 3, 4)), jnp.ones((1, 3, 1))
    assert composites.jax.weight_norm(v, g, 1).shape == (2, 3, 4)
    lowered = jax.jit(lambda v, g: composites.jax.weight_norm(v, g, 1)).lower(v, g)
    assert composite_names(lowered.as_text()) == []


def test_what_is_available() -> None:
    found = composites.jax.available("gelu", "dropout", "lstm_cell")
    assert [(one.name, one.is_available) for one in found] == [
        ("ptxla.gelu", True), ("ptxla.dropout", False), ("ptxla.lstm_cell", True),
    ]  # fmt: skip
    assert "random" in str(found[1])
    with pytest.raises(LoweringError, match=r"ptxla\.dropout is not available in JAX: .* random"):
        composites.jax.dropout(jnp.ones(3), 0.5, True)


def test_a_call_that_pytorch_rejects() -> None:
    with pytest.raises(
        LoweringError, match=r"ptxla\.gelu: decomposition native failed for float32"
    ):
        composites.jax.gelu(jnp.ones(3), approximate="sinh")
    with pytest.raises(TypeError, match="unexpected keyword"):
        composites.jax.gelu(jnp.ones(3), approximation="tanh")


def test_what_jax_forbids_a_program_is_no_matter_to_operators_of_pytorch() -> None:
    x, weight = jnp.ones((2, 3)), jnp.ones(3)

    def loss(x: jax.Array, weight: jax.Array) -> jax.Array:
        return composites.jax.layer_norm(x, [3], weight, weight, 1e-5)[0].sum()

    with jax.numpy_rank_promotion("raise"):
        gradients = jax.grad(loss, argnums=(0, 1))(x, weight)
    assert [one.shape for one in gradients] == [(2, 3), (3,)]


def test_dtypes_are_those_of_jax() -> None:
    narrow = jnp.arange(4, dtype=jnp.bfloat16)
    assert composites.jax.cumsum(narrow, 0, dtype=jnp.float32).dtype == jnp.float32
    assert composites.jax.cumsum(narrow, 0, dtype=torch.float32).dtype == jnp.float32


def test_integers_have_the_bits_that_jax_has() -> None:
    logits, classes = jnp.ones((2, 3)), jnp.array([0, 2])
    assert classes.dtype == jnp.int32
    text = jax.jit(composites.jax.cross_entropy_loss).lower(logits, classes).as_text()
    assert "tensor<2xi64>" not in text
    assert composites.jax.argmax(logits).dtype == jnp.int32
    with enable_x64():
        assert composites.jax.argmax(logits).dtype == jnp.int64


def test_the_precision_of_products_is_that_of_the_call() -> None:
    x = jnp.ones((2, 4, 4))

    def is_highest() -> bool:
        text = jax.jit(lambda x: composites.jax.bmm(x, x, jnp.float32)).lower(x).as_text()
        return "HIGHEST" in text

    assert not is_highest()
    with jax.default_matmul_precision("highest"):
        assert is_highest()
    assert not is_highest()


def test_lists_of_arrays() -> None:
    lists = [[jnp.ones(3), jnp.ones((2, 2))] for _ in range(4)]
    numbers = [jnp.float32(0.1), jnp.float32(1.0), jnp.float32(0.9)]
    found = composites.jax.fused_adamw(
        *lists, [], *numbers, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, maximize=False
    )
    assert [one.shape for one in found] == [(3,), (2, 2)] * 3
