"""`composites.jax`: names, arguments, conditions, errors, and what is imported."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from composites_testing.jax_calls import composite_names
from composites_testing.processes import run_python

import composites.jax
from composites.errors import AllowlistError, LoweringError
from composites.registry.catalog import builtin_registry, load_catalog
from lowering.frontends.fx.apart import record
from lowering.jax_entries.entries import Entries
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


def test_decompositions_of_one_hot_and_with_a_constant() -> None:
    numbers = torch.arange(20.0, dtype=torch.float64)
    run = record(lambda x: numbers * torch.nn.functional.one_hot(x, 20), [ONES[0]])
    np.testing.assert_array_equal(run(jnp.asarray(ONES[0]))[0], np.eye(20)[[1]])


X = np.arange(12, dtype=np.float32).reshape(3, 4)
ONES, F32 = (np.ones(1, np.int32), np.ones(1, np.int64)), torch.float32
BYTES, CLASSES, SCALES = X.astype(np.int8), np.ones((1, 1, 4), int), (1 + X[0, :1], X[0, 2:3])
LENGTHS = np.linalg.norm(X, axis=1)[:, None]
OF_SOFTMAX = "(self, dim=-1, *, axis=None)"
OF_ITS_BACKWARD = "(grad_output, output, dim=-1, input_dtype=None)"
OF_LOSS = "(self, target, weight=None, reduction=1, ignore_index=-100)"
PRIVATE = {
    "softmax": OF_SOFTMAX,
    "log_softmax": OF_SOFTMAX,
    "softmax_backward": OF_ITS_BACKWARD,
    "log_softmax_backward": OF_ITS_BACKWARD,
    "weight_norm": "(v, g, dim=0)",
    "fft_r2c": "(self, dim=None, normalization='backward', *, onesided=True)",
    "fft_c2c": "(self, dim=None, normalization='backward', *, forward=True)",
    "fft_c2r": "(self, dim=None, normalization='backward', last_dim_size=None)",
    "nll_loss": OF_LOSS,
    "nll_loss2d": OF_LOSS,
    "weight_int8pack_mm": "(self, mat2, scales)",
    "scaled_mm": "(self, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None,"
    " use_fast_accum=False)",
    "fake_quantize_per_tensor_with_tensors": "(self, scale, zero_point, fake_quant_enabled,"
    " quant_min, quant_max)",
}
CALLS: list[tuple[str, Callable[[Any], Any], Callable[[], Any]]] = [
    ("softmax", lambda f: f(X), lambda: jax.nn.softmax(X)),
    ("softmax", lambda f: f(X, 0), lambda: jax.nn.softmax(X, 0)),
    ("softmax", lambda f: f(X, axis=0), lambda: jax.nn.softmax(X, axis=0)),
    ("log_softmax", lambda f: f(X, axis=0), lambda: jax.nn.log_softmax(X, axis=0)),
    ("softmax_backward", lambda f: f(X, X), lambda: X * (X - (X * X).sum(-1, keepdims=True))),
    ("log_softmax_backward", lambda f: f(X, -X), lambda: X - np.exp(-X) * X.sum(-1, keepdims=True)),
    ("weight_norm", lambda f: f(X, jnp.ones((3, 1))), lambda: X / LENGTHS),
    ("fft_r2c", lambda f: f(X), lambda: jnp.fft.rfftn(X)),
    ("fft_r2c", lambda f: f(X, -1, "ortho"), lambda: jnp.fft.rfft(X, norm="ortho")),
    ("fft_r2c", lambda f: f(X, [1], 2, onesided=False), lambda: jnp.fft.fft(X, norm="forward")),
    ("fft_c2c", lambda f: f(X + 0j), lambda: jnp.fft.fftn(X)),
    ("fft_c2c", lambda f: f(X + 0j, 0, forward=False), lambda: jnp.fft.ifft(X, axis=0)),
    ("fft_c2r", lambda f: f(X + 0j), lambda: jnp.fft.irfftn(X)),
    ("fft_c2r", lambda f: f(X + 0j, 1, "ortho", 5), lambda: jnp.fft.irfft(X, 5, norm="ortho")),
    ("nll_loss", lambda f: f(X, np.array([1, -100, 3]))[0], lambda: -(X[0, 1] + X[2, 3]) / 2),
    ("nll_loss2d", lambda f: f(X[None, :, None], CLASSES)[0], lambda: -X[1].mean()),
    ("weight_int8pack_mm", lambda f: f(X, BYTES, X[:, 1]), lambda: X @ X.T * X[:, 1]),
    ("scaled_mm", lambda f: f(X, X.T, *SCALES, out_dtype=F32), lambda: 2 * X @ X.T),
    (
        "fake_quantize_per_tensor_with_tensors",
        lambda f: f(X, X[0, 2:3], *ONES, 0, 5)[0],
        lambda: np.clip(np.round(X / 2), -1, 4) * 2,
    ),
]


@pytest.mark.parametrize("name", PRIVATE)
def test_private_operators_have_the_arguments_of_public_functions(name: str) -> None:
    function = composites.jax.entry(f"ptxla.{name}")
    assert str(inspect.signature(function)) == PRIVATE[name]
    assert "half_to_float" not in (function.__doc__ or "")
    calls = [(call, expected) for called, call, expected in CALLS if called == name]
    assert calls
    for call, expected in calls:
        np.testing.assert_allclose(call(function), expected(), rtol=1e-5, atol=1e-5)


def test_the_table_has_all_private_operators_and_they_are_available() -> None:
    assert all(operator.is_available for operator in composites.jax.available(*PRIVATE))
    entries = builtin_registry().composites
    named = {e.name for e in entries if re.search(r"::_|loss(2d)?_forward$", e.op or "")}
    assert named == PRIVATE.keys()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: composites.jax.softmax(X, 0, axis=1), "dim=0 and axis=1 name the same argument"),
        (lambda: composites.jax.fft_r2c(X, 2), "dim=2: an array of 2 dimensions has no 2"),
        (lambda: composites.jax.fft_r2c(X, 1, "no"), "normalization='no' is not one of backward"),
    ],
)
def test_wrong_arguments_of_public_functions(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(composites.InvalidCallError, match=message):
        call()


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
    rows = composites.jax.available("gelu", "dropout", "lstm_cell")
    assert [(row.name, row.is_available) for row in rows] == [
        ("ptxla.gelu", True), ("ptxla.dropout", False), ("ptxla.lstm_cell", True),
    ]  # fmt: skip
    assert "random" in str(rows[1])
    with pytest.raises(LoweringError, match=r"ptxla\.dropout is not available in JAX: .* random"):
        composites.jax.dropout(jnp.ones(3), 0.5, True)


def test_a_call_that_pytorch_rejects() -> None:
    failed = r"ptxla\.gelu: decomposition native failed for float32"
    with pytest.raises(LoweringError, match=failed):
        composites.jax.gelu(jnp.ones(3), approximate="sinh")
    with pytest.raises(TypeError, match="unexpected keyword"):
        composites.jax.gelu(jnp.ones(3), approximation="tanh")


def test_what_jax_forbids_a_program_is_no_matter_to_operators_of_pytorch() -> None:
    x, weight = jnp.ones((2, 3)), jnp.ones(3)

    def loss(x: jax.Array, weight: jax.Array) -> jax.Array:
        return composites.jax.layer_norm(x, [3], weight, weight, 1e-5)[0].sum()

    with jax.numpy_rank_promotion("raise"):
        gradients = jax.grad(loss, argnums=(0, 1))(x, weight)
    assert [gradient.shape for gradient in gradients] == [(2, 3), (3,)]


def test_dtypes_and_integers_are_those_of_jax() -> None:
    narrow = jnp.arange(4, dtype=jnp.bfloat16)
    assert composites.jax.cumsum(narrow, 0, dtype=jnp.float32).dtype == jnp.float32
    assert composites.jax.cumsum(narrow, 0, dtype=torch.float32).dtype == jnp.float32
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
    results = composites.jax.fused_adamw(
        *lists, [], *numbers, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, maximize=False
    )
    assert [result.shape for result in results] == [(3,), (2, 2)] * 3


def total(xs: list[torch.Tensor], w: torch.Tensor) -> torch.Tensor:
    return torch.stack([x * w for x in xs]).sum(0)


def total_backward(
    grad_output: torch.Tensor, xs: list[torch.Tensor], w: torch.Tensor
) -> tuple[list[torch.Tensor], torch.Tensor]:
    return [grad_output * w for _ in xs], grad_output * torch.stack(xs).sum(0)


def test_an_explicit_backward_returns_a_list_for_a_list(tmp_path: Path) -> None:
    file = tmp_path / "acme.yaml"
    file.write_text(
        "schema: 1\nnamespace: acme\ncomposites:\n"
        f"  total: {{function: '{__name__}:total', operands: [xs, w], backward: total_grad}}\n"
        f"  total_grad: {{gradients: [xs, w], decomposition: '{__name__}:total_backward'}}\n"
    )
    function = Entries(load_catalog(files=[str(file)])).find("acme.total")
    xs, w = [jnp.ones(3), jnp.full(3, 2.0)], jnp.full(3, 5.0)
    gradient = jax.grad(lambda xs, w: function(xs, w).sum(), argnums=(0, 1))
    assert "acme.total_grad" in jax.jit(gradient).lower(xs, w).as_text()
    grad_xs, grad_w = gradient(xs, w)
    assert [array.tolist() for array in (*grad_xs, grad_w)] == [[5.0] * 3, [5.0] * 3, [3.0] * 3]
