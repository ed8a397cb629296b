"""Backwards of JAX decompositions: derived with `jax.vjp`, or entries of their own in JAX."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.modules import CallingWithWeight
from composites_testing.tensors import values
from composites_testing.vendor_calls import umbra_composites, values_and_gradients
from torch import Tensor

import composites
from composites.errors import LoweringError, RegistryError

FUNCTIONS = """
import jax
import jax.numpy as jnp
import torch

import composites


def gelu(self, *, approximate="none"):
    return jax.nn.gelu(self, approximate=approximate == "tanh")


def exp(self):
    return jnp.exp(self)


def linear(input, weight, bias=None):
    product = input @ weight.T
    return product if bias is None else product + bias


def named_silu(self):
    product = composites.intermediate(self @ jnp.eye(3, dtype=self.dtype), "product")
    return product * jax.nn.sigmoid(product)


def var_mean(self, dim=None, *, correction=None, keepdim=False):
    axes = tuple(dim) if dim else None
    ddof = 1 if correction is None else correction
    variance = jnp.var(self, axes, ddof=ddof, keepdims=keepdim)
    return variance, jnp.mean(self, axes, keepdims=keepdim)


def topk(self, k, dim=-1, largest=True, sorted=True):
    values, indices = jax.lax.top_k(self, k)
    return values, indices.astype(jnp.int64)


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return weight[indices]


def cat(tensors, dim=0):
    assert type(tensors) is list
    return jnp.concatenate(tensors, dim)


def atan2(self, other):
    return jnp.where(self > 0, 1.0, 2.0)  # weakly typed, and without gradient


def looped(self):
    return jax.lax.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, self)


def scale(x: torch.Tensor, y: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * y * factor


def root(x: jax.Array, power: int) -> jax.Array:
    return x**power


def to_root(composite, self, exponent):
    return composite(self, exponent)


def swish(input):
    return jax.nn.sigmoid(input) * input


def swish_grad(grad_output: jax.Array, self: jax.Array, half: jax.Array) -> jax.Array:
    return grad_output * (half + self * half * (1 - half))


def half(input):
    return jax.nn.sigmoid(input)


def untyped_grad(grad_output, self):
    return grad_output
"""


Enable = Callable[[str], None]


def derived(op: str, function: str, more: str = "") -> str:
    keys = f"op: {op}, decomposition: 'jax:umbra_ops:{function}', backward: derive{more}"
    return f"  planted: {{{keys}}}\n"


numbers = partial(values, device="cpu")


def same_as_cpu(
    call: Callable[..., Any], operands: Sequence[Tensor], names: Sequence[str], rtol: float = 1e-5
) -> None:
    results, grads = values_and_gradients(call, "xla", operands)
    assert sorted(set(umbra_composites(*results, *grads))) == list(names)
    expected, expected_grads = values_and_gradients(call, "cpu", operands)
    actual = [tensor.cpu() for tensor in results + grads]
    torch.testing.assert_close(actual, expected + expected_grads, rtol=rtol, atol=rtol)


BOTH = ("planted", "planted_backward")


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_derived(enable: Enable, approximate: str) -> None:
    enable(derived("aten::gelu", "gelu", ", attributes: {approximate: approximate}"))
    for dtype, rtol in (
        (torch.float32, 1e-5),
        (torch.bfloat16, 2e-2),
        (torch.float16, 2e-3),
        (torch.float64, 1e-12),
    ):
        x = numbers(4, 3, dtype=dtype)
        same_as_cpu(lambda x: F.gelu(x, approximate=approximate), [x], BOTH, rtol)


ADAPTED = (
    "  planted:\n    op: aten::pow.Tensor_Scalar\n    adapt: umbra_ops:to_root\n"
    "    decomposition: jax:umbra_ops:root\n    attributes: {power: power}\n    backward: derive\n"
)
VARIANCE = derived(
    "aten::var_mean.correction",
    "var_mean",
    ", attributes: {keepdim: keepdim}, when: {where: [dim is not None]}",
)
LINEAR = derived("aten::linear", "linear")
WEIGHTS = [numbers(4, 3), numbers(5, 3, seed=1), numbers(5, seed=2)]
CALLS: dict[str, tuple[str, Callable[..., Any], list[Tensor]]] = {
    "a bias": (LINEAR, F.linear, WEIGHTS),
    "an absent operand": (LINEAR, F.linear, WEIGHTS[:2]),
    "several results": (VARIANCE, lambda t: torch.var_mean(t, dim=[1]), WEIGHTS[:1]),
    "no gradient of the first": (VARIANCE, lambda t: torch.var_mean(t, dim=[1])[1], WEIGHTS[:1]),
    "a result of integers": (
        derived("aten::topk", "topk", ", attributes: {k: k}"), lambda t: t.topk(2), [numbers(4, 6)],
    ),
    "an operand of integers": (
        derived("aten::embedding", "embedding"), lambda i, w: F.embedding(i, w),
        [torch.tensor([[1, 2], [2, 0]]), numbers(4, 3)],
    ),
    "complex numbers": (
        derived("aten::exp", "exp"), torch.exp, [torch.complex(numbers(4), numbers(4, seed=1))],
    ),
    "lists of tensors": (
        derived("aten::cat", "cat", ", attributes: {dim: dim}"), lambda *t: torch.cat(t, 1),
        [numbers(2, n, seed=n) for n in (1, 2, 3)],
    ),
    "a graph of torch.compile": (
        derived("aten::gelu", "gelu"),
        torch.compile(F.gelu, backend="aot_eager", fullgraph=True), [numbers(4, 3)],
    ),
    "a Python function": (
        "  planted: {function: 'umbra_ops:scale', operands: [x, y], attributes: {factor: factor},"
        " decomposition: 'jax:umbra_ops:scale', backward: derive}\n",
        lambda x, y: import_module("umbra_ops").scale(x, y, 3.0),
        [numbers(4), numbers(4, seed=1)],
    ),
    "adapted arguments": (ADAPTED, lambda x: torch.pow(x, 3), [numbers(4)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_calls(enable: Enable, case: str) -> None:
    entry, call, operands = CALLS[case]
    enable(entry)
    torch._dynamo.reset()
    same_as_cpu(call, operands, BOTH)


def test_only_what_is_asked_for(enable: Enable) -> None:
    enable(derived("aten::linear", "linear", ", saves: [weight]"))
    x, w = numbers(4, 3).to("xla").requires_grad_(), numbers(5, 3, seed=1).to("xla")
    (gradient,) = torch.autograd.grad(F.linear(x, w).sum(), [x])
    text = xm.get_stablehlo([gradient])
    assert "output_mask = dense<[true, false, false]> : tensor<3xi1>" in text
    assert re.search(r'"umbra.planted_backward" %\S+, %\S+ \{', text)  # one gradient, the weight
    torch.testing.assert_close(gradient.cpu(), w.cpu().sum(0).expand(4, 3))
    composites.disable()
    enable(derived("aten::linear", "linear", ", saves: [input]"))
    with pytest.raises(LoweringError, match="the backward reads weight, which `saves` leaves out"):
        torch.autograd.grad(F.linear(x, w).sum(), [x])


def test_a_value_that_the_function_names(enable: Enable) -> None:
    enable(derived("aten::silu", "named_silu", ", intermediates: [product]"))
    same_as_cpu(F.silu, [numbers(4, 3)], BOTH)
    x = numbers(4, 3).to("xla").requires_grad_()
    text = xm.get_stablehlo(torch.autograd.grad(F.silu(x).sum(), [x]))
    assert text.count("stablehlo.dot") == 2  # one each way


def test_a_gradient_that_is_zero(enable: Enable) -> None:
    enable(derived("aten::atan2", "atan2"))
    x, y = (numbers(4, seed=n).to("xla").requires_grad_() for n in range(2))
    grads = torch.autograd.grad(torch.atan2(x, y).sum(), [x, y])
    assert umbra_composites(*grads) == ["planted_backward"]
    assert [g.dtype for g in grads] == [torch.float32] * 2
    assert all(torch.equal(g.cpu(), torch.zeros(4)) for g in grads)


def test_a_gradient_of_the_gradient_is_that_of_the_operator(enable: Enable) -> None:
    enable(derived("aten::gelu", "gelu"))
    gradients = []
    for device in ("xla", "cpu"):
        x = numbers(4, 3).to(device).requires_grad_()
        (first,) = torch.autograd.grad(F.gelu(x).sum(), [x], create_graph=True)
        gradients.append(torch.autograd.grad(first.square().sum(), [x])[0].cpu())
    torch.testing.assert_close(*gradients)


def test_a_second_derivative_of_adapted_arguments_is_an_error(enable: Enable) -> None:
    enable(ADAPTED)
    x = numbers(4).to("xla").requires_grad_()
    with pytest.raises(LoweringError, match=r"differentiated too .*; write the decomposition in"):
        torch.autograd.grad(torch.pow(x, 3).sum(), [x], create_graph=True)


SWISH = (
    "  swish:\n    op: aten::silu\n    decomposition: jax:umbra_ops:swish\n"
    "    backward: swish_grad\n    saves: [self, half: 'umbra_ops:half']\n"
    "  swish_grad:\n    gradients: [self]\n    decomposition: jax:umbra_ops:swish_grad\n"
)


def test_an_entry_of_its_own(enable: Enable) -> None:
    enable(SWISH)
    same_as_cpu(F.silu, [numbers(4, 3)], ["swish", "swish_grad"])
    same_as_cpu(F.silu, [numbers(4, 3, dtype=torch.bfloat16)], ["swish", "swish_grad"], 2e-2)


def test_mistakes(enable: Enable) -> None:
    with pytest.raises(RegistryError, match=r"torch\.Tensor or jax\.Array"):
        enable("  g: {gradients: [self], decomposition: 'jax:umbra_ops:untyped_grad'}\n")
    with pytest.raises(RegistryError, match="or a JAX function with jax:"):
        enable("  g: {gradients: [self]}\n")
    enable(derived("aten::relu", "looped"))
    x = numbers(4).abs().to("xla").requires_grad_()
    with pytest.raises(LoweringError, match=r"umbra_ops:looped failed .*Reverse-mode"):
        torch.autograd.grad(torch.relu(x).sum(), [x])


def test_exports(enable: Enable) -> None:
    enable(derived("aten::gelu", "gelu"))
    step = CallingWithWeight(F.gelu)
    program = composites.export(step, (), train=True, ops=["umbra.planted"])
    assert program.composites == {"umbra.planted": 1, "umbra.planted_backward": 1}
